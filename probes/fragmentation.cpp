#include <algorithm>

#include "methods/parts/segments.h"
#include "probes/probe.h"

namespace turnbench {
namespace {

class Fragmentation : public PromptProbe {
 public:
  Fragmentation(int block, int window, Cut cut) : block_(block), window_(window), cut_(cut) {}

  void begin(const DialogueView& prompt) override {
    const std::vector<int> of = segments(prompt, cut_, "fragmentation");
    const int n = static_cast<int>(of.size()) - window_;
    blocks_ = fragmented_ = 0;
    for (int begin = 0; begin < n; begin += block_) {
      const int last = std::min(begin + block_, n) - 1;
      fragmented_ += of[begin] != of[last];
      ++blocks_;
    }
  }

 protected:
  ProbeResult result() override {
    if (blocks_ == 0) return {0, "the prompt has no token before the window"};
    return {static_cast<double>(fragmented_) / blocks_, ""};
  }

 private:
  int block_, window_;
  Cut cut_;
  int blocks_ = 0, fragmented_ = 0;
};

}  // namespace

/// The share of equal-sized blocks that a segment boundary cuts (SABlock, figure 2a).  The blocks
/// are consecutive and cover the tokens before the window; the last one may be shorter.
ProbeInfo fragmentation() {
  using Kind = ParameterInfo::Kind;
  return {.name = "fragmentation",
          .summary = "share of blocks of a fixed size in which a segment of the text ends",
          .paper = "SABlock, 2025, figure 2a",
          .metric = "fragmentation",
          .deviations =
              "the paper does not list its delimiters: cut=clause also cuts after commas and "
              "colons, cut=sentence does not",
          .input = ProbeInfo::Input::kText,
          .parameters = {{"block", Kind::kInteger, "7", "tokens", "block size", 1},
                         {"window", Kind::kInteger, "8", "tokens",
                          "last tokens of the prompt, not divided into blocks", 0},
                         {"cut", Kind::kChoice, "clause", "clause|sentence",
                          "ends of segments: those of sablock, or ends of sentences only"}},
          .make = [](const Parameters& p) {
            return std::make_unique<Fragmentation>(
                p.integer("block"), p.integer("window"),
                p.choice("cut") == "clause" ? Cut::kClause : Cut::kSentence);
          }};
}

}  // namespace turnbench
