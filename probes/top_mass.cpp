#include <cmath>

#include "methods/parts/layer_sums.h"
#include "methods/parts/scores.h"
#include "probes/heads.h"

namespace turnbench {
namespace {

class TopMass : public PromptProbe {
 public:
  TopMass(const Budget& budget, double row, HeadSelection heads)
      : budget_(budget), row_(row), heads_(std::move(heads)) {}

  void begin(const DialogueView&) override { values_.clear(); }

  void observe_prompt(LayerSums& layer) override {
    const int row = std::max(0, static_cast<int>(std::ceil(row_ * layer.rows().size())) - 1);
    const int count = budget_.tokens(layer.rows().begin + row + 1);
    if (count <= 0) return;
    const AttentionStats& stats = layer.view().stats;
    std::vector<double> shares(static_cast<std::size_t>(layer.view().shape.heads));
    stats.for_each_head([&](int h) {
      stats.for_each_row(h, row, 1, [&](std::int32_t, std::span<const float> scores) {
        double top = 0, all = 0;
        for (std::int32_t j : top_k(scores, count)) top += static_cast<double>(scores[j]);
        for (float score : scores) all += static_cast<double>(score);
        shares[h] = top / all;
      });
    });
    heads_.for_each(layer.view(), [&](std::size_t head) { values_.push_back(shares[head]); });
  }

 protected:
  ProbeResult result() override {
    return heads_.reduce(values_, "the budget is less than one token");
  }

 private:
  Budget budget_;
  double row_;
  HeadSelection heads_;
  std::vector<double> values_;  ///< of the heads
};

}  // namespace

/// The share of a row's attention on the tokens with the highest attention: a point of the
/// cumulative sum of the row's sorted scores (PQCache, figure 6).
ProbeInfo top_mass() {
  using Kind = ParameterInfo::Kind;
  return {.name = "top-mass",
          .summary = "share of a row's attention on the tokens that it attends to most",
          .paper = "PQCache, 2024, figure 6",
          .metric = "mass",
          .deviations =
              "the paper shows the sorted scores of some rows, not their sums; a share as budget "
              "refers to the tokens that the row sees; the number of the row is rounded up",
          .parameters =
              and_also({{"budget", Kind::kBudget, "0.1", "tokens or share",
                         "number of tokens with the highest scores, among those that the row sees"},
                        {"row", Kind::kNumber, "1", "share of the prompt",
                         "position of the row; 1: the last token", 0, 1}},
                       head_parameters()),
          .make = [](const Parameters& p) {
            return std::make_unique<TopMass>(p.budget("budget"), p.number("row"),
                                             parse_head_selection("top-mass", p));
          }};
}

}  // namespace turnbench
