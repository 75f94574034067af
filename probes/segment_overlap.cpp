#include "methods/parts/layer_sums.h"
#include "probes/heads.h"
#include "probes/line_set.h"

namespace turnbench {
namespace {

class SegmentOverlap : public PromptProbe {
 public:
  SegmentOverlap(double eta, double split, bool shared, HeadSelection heads)
      : eta_(eta), split_(split), shared_(shared), heads_(std::move(heads)) {}

  void begin(const DialogueView& prompt) override {
    tokens_ = static_cast<std::int32_t>(prompt.tokens.size());
    cut_ = static_cast<std::int32_t>(split_ * tokens_);
    values_.clear();
  }

  void observe_prompt(LayerSums& layer) override {
    if (!has_parts()) return;
    heads_.for_each(layer.view(), [&](std::size_t head) {
      const std::span<const std::int32_t> earlier = layer.ranked_lines({0, cut_})[head],
                                          later = layer.ranked_lines({cut_, tokens_})[head];
      const int count = line_count(eta_, earlier.size());
      if (count == 0) return;
      const LineSet first(earlier, count), second(later, line_count(eta_, later.size()));
      const LineSet possible(earlier, static_cast<int>(earlier.size()));
      const int of = shared_ ? count_common_lines(possible, second) : second.size;
      values_.push_back(of == 0 ? 0 : static_cast<double>(count_common_lines(first, second)) / of);
    });
  }

 protected:
  ProbeResult result() override {
    if (!has_parts()) return {0, "split leaves one part of the prompt without tokens"};
    return heads_.reduce(values_);
  }

 private:
  bool has_parts() const { return cut_ > 0 && cut_ < tokens_; }

  double eta_, split_;
  bool shared_;
  HeadSelection heads_;
  std::int32_t tokens_ = 0, cut_ = 0;  ///< number of tokens in the prompt and in its first part
  std::vector<double> values_;         ///< of the heads
};

}  // namespace

/// The share of the heaviest lines of a prompt's second part that are among the heaviest of its
/// first part (LoopServe, section 3.1.3, figure 3): rows and columns of the first part alone,
/// against rows of the second part and all columns.
ProbeInfo segment_overlap() {
  using Kind = ParameterInfo::Kind;
  std::vector<ParameterInfo> parameters = line_parameters();
  parameters.push_back({"split", Kind::kNumber, "0.5", "share",
                        "size of the first part, as a share of the prompt", 0, 1});
  parameters.push_back({"of", Kind::kChoice, "all", "all|shared",
                        "lines of the second part that count: all, or only those that also exist "
                        "in the first part"});
  return {.name = "segment-overlap",
          .summary =
              "share of the lines selected in a prompt's second part that are also selected in its "
              "first part",
          .paper = "LoopServe, 2025, figure 3",
          .metric = "overlap",
          .deviations =
              "the paper does not state the split: half of the prompt; the number of lines is "
              "rounded down",
          .parameters = std::move(parameters),
          .make = [](const Parameters& p) {
            return std::make_unique<SegmentOverlap>(p.number("eta"), p.number("split"),
                                                    p.choice("of") == "shared",
                                                    parse_head_selection("segment-overlap", p));
          }};
}

}  // namespace turnbench
