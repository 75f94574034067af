#include "methods/eviction/sablock.h"
#include "methods/parts/layer_sums.h"
#include "probes/probe.h"

namespace turnbench {
namespace {

class BlockSizes : public PromptProbe {
 public:
  explicit BlockSizes(const Parameters& p)
      : size_(p.integer("size")),
        by_tokens_(p.choice("by") == "tokens"),
        window_(p.integer("window")),
        blocks_of_(sablock_blocks(p)) {}

  int window() const override { return window_; }
  void begin(const DialogueView&) override { of_size_ = all_ = 0; }

  void observe_prompt(LayerSums& layer) override {
    for (const SegmentBlocks& segment : blocks_of_(layer.view())) {
      if (segment.block == 0) continue;
      const double weight = by_tokens_ ? static_cast<double>(segment.slots.size()) : 1;
      all_ += weight;
      if (segment.block == size_) of_size_ += weight;
    }
  }

 protected:
  ProbeResult result() override {
    if (all_ == 0) return {0, "the prompt has no token before the window"};
    return {of_size_ / all_, ""};
  }

 private:
  int size_;
  bool by_tokens_;
  int window_;
  std::function<std::vector<SegmentBlocks>(const LayerView&)> blocks_of_;
  double of_size_ = 0, all_ = 0;
};

}  // namespace

/// One bar of the histogram of the block sizes that SABlock chooses (SABlock, figure 9), over all
/// layers and the segments with kept tokens.
ProbeInfo block_sizes() {
  using Kind = ParameterInfo::Kind;
  return {.name = "block-sizes",
          .summary = "share of the segments for which SABlock selects a given block size",
          .paper = "SABlock, 2025, figure 9",
          .metric = "share",
          .deviations =
              "those of sablock (describe method sablock); the paper does not state whether its "
              "bars count segments or tokens; the segments of all layers are counted together; "
              "segments of which no token is kept do not count",
          .parameters = and_also({{"size", Kind::kInteger, "1", "tokens", "block size", 1},
                                  {"by", Kind::kChoice, "segments", "segments|tokens",
                                   "share of segments, or of tokens"}},
                                 find_method("sablock", "block-sizes").parameters),
          .make = [](const Parameters& p) { return std::make_unique<BlockSizes>(p); }};
}

}  // namespace turnbench
