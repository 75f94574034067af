#include <algorithm>
#include <iterator>

#include "common/mean.h"
#include "methods/parts/layer_sums.h"
#include "methods/parts/scores.h"
#include "methods/parts/token_blocks.h"
#include "probes/probe.h"

namespace turnbench {
namespace {

class Redundancy : public PromptProbe {
 public:
  Redundancy(int block, const Budget& budget, int window, bool by_tokens)
      : block_(block), budget_(budget), window_(window), by_tokens_(by_tokens) {}

  void begin(const DialogueView&) override { mean_ = {}; }

  void observe_prompt(LayerSums& layer) override {
    const std::int32_t n = layer.rows().end, candidates = n - window_;
    const int count = std::min(budget_.tokens(n), candidates);
    if (count <= 0) return;
    const std::vector<double> sums = layer.column_mass({candidates, n}, candidates);
    const std::vector<float> scores(sums.begin(), sums.end());
    const std::vector<std::int32_t> best = top_k(scores, count),
                                    kept = in_blocks(scores, block_, count);
    mean_.add(by_tokens_ ? outside(kept, best) : lost(mass(scores, kept), mass(scores, best)));
  }

 protected:
  ProbeResult result() override {
    if (mean_.count == 0) return {0, "the prompt has no token before the window to keep"};
    return {mean_.value(), ""};
  }

 private:
  static double mass(const std::vector<float>& scores, const std::vector<std::int32_t>& tokens) {
    double sum = 0;
    for (std::int32_t j : tokens) sum += static_cast<double>(scores[j]);
    return sum;
  }

  static double lost(double kept, double best) { return best > 0 ? 1 - kept / best : 0; }

  /// The share of `kept` that is not among `best`.
  static double outside(const std::vector<std::int32_t>& kept,
                        const std::vector<std::int32_t>& best) {
    std::vector<std::int32_t> rest;
    std::set_difference(kept.begin(), kept.end(), best.begin(), best.end(),
                        std::back_inserter(rest));
    return static_cast<double>(rest.size()) / static_cast<double>(kept.size());
  }

  int block_;
  Budget budget_;
  int window_;
  bool by_tokens_;
  Mean mean_;
};

}  // namespace

/// The loss from keeping blocks of equal size instead of the best tokens (SABlock, figure 2c).  A
/// token's score is its attention from the window's rows, averaged over all heads of a layer; the
/// loss is averaged over the layers.
ProbeInfo redundancy() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "redundancy",
      .summary =
          "attention that a selection of blocks loses compared with a selection of as many single "
          "tokens",
      .paper = "SABlock, 2025, figure 2c",
      .metric = "redundancy",
      .deviations =
          "the paper gives no formula, budget or window; by=tokens is a second interpretation; "
          "scores "
          "are means over the heads of a layer, and the result is the mean over the layers; of the "
          "last block, the best tokens are kept",
      .parameters = {{"block", Kind::kInteger, "7", "tokens", "block size", 1},
                     {"budget", Kind::kBudget, "128", "tokens or share",
                      "tokens kept before the window", 1},
                     {"window", Kind::kInteger, "8", "tokens",
                      "last tokens of the prompt, whose attention scores the tokens before them",
                      1},
                     {"by", Kind::kChoice, "mass", "mass|tokens",
                      "mass: lost share of the best tokens' attention; tokens: share of the kept "
                      "tokens that are not among the best"}},
      .make = [](const Parameters& p) {
        return std::make_unique<Redundancy>(p.integer("block"), p.budget("budget"),
                                            p.integer("window"), p.choice("by") == "tokens");
      }};
}

}  // namespace turnbench
