#pragma once

#include <algorithm>
#include <vector>

#include "methods/window_scores.h"

namespace turnbench {

/// Keeps the most recent tokens and, before them, those with the largest column mass: the sum over
/// all query rows so far of what they give to a token.  What H2O and Keyformer share.
class HeavyHitters : public EvictionPolicy {
 public:
  struct Settings {
    LayerBudget budget;  ///< tokens kept per set
    Budget recent;       ///< of them the most recent ones, as a number or share of the mean
    /// The token of a decode step is one of the budget, and of its recent ones.
    bool counts_current = false;
    bool dynamic = true;   ///< goes on while decoding, and sums live as long as their tokens
    bool per_row = false;  ///< sums are divided by the rows that could see the token
    bool per_query_head = false;
    int causal_rows = 0;  ///< as in ColumnRule
    bool gumbel = false;  ///< rows count as Keyformer counts them, at a temperature that rises
    double first_temperature = 1, last_temperature = 1;
    int steps = 1;  ///< decode steps from the first to the last temperature
  };
  explicit HeavyHitters(const Settings& s) : s_(s) {}

  std::unique_ptr<EvictionPolicy> clone() const override {
    return std::make_unique<HeavyHitters>(*this);
  }
  std::vector<ColumnRule> columns() const override { return {rule(0)}; }
  KeepSets after_prefill(const LayerView& view) override;
  KeepSets after_decode(const LayerView& view) override;

 private:
  struct Limit {
    int recent = 0, hitters = 0;  ///< tokens
  };
  struct Layer {
    std::vector<std::vector<float>> mass;  // [set][slot]
    Limit limit;                           // of each set, from the end of a prompt on
    int rows = 0;                          // summed in `mass`
  };

  ColumnRule rule(int step) const {
    const double part = std::min(1.0, static_cast<double>(step) / s_.steps);
    return {s_.gumbel, s_.first_temperature + part * (s_.last_temperature - s_.first_temperature),
            s_.causal_rows};
  }
  static void add(const std::vector<KeptSet>& sets, const ColumnMass& rows, Layer& layer);
  KeepSets keep(const LayerView& view, const std::vector<KeptSet>& sets, Layer& layer) const;
  Limit limit(const LayerView& view) const;

  Settings s_;
  std::vector<Layer> layers_;
};

}  // namespace turnbench
