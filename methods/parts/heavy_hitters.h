#pragma once

#include <algorithm>
#include <vector>

#include "methods/parts/budget_parameters.h"
#include "methods/parts/kept_sets.h"

namespace turnbench {

/// Common base of H2O and Keyformer.  The mass F_j of a token is its attention, summed over all
/// query rows so far.  Each set keeps its sinks, its most recent tokens and, of the tokens between
/// them, those with the largest mass (the heavy hitters).
class HeavyHitters : public Cloned<HeavyHitters, EvictionPolicy> {
 public:
  struct Settings {
    LayerBudget budget;  ///< tokens kept per set
    Budget recent;  ///< recent tokens among them: a number, or a share of the mean budget without
                    ///< its sinks
    bool counts_current = false;  ///< the token of a decode step counts as one of the recent ones
    bool dynamic = true;  ///< also evicts after decode steps; masses are kept with their tokens
    bool divide_by_rows = false;  ///< divides a mass by the number of rows that see the token
    bool per_query_head = false;  ///< a kept set per query head instead of per KV head
    int causal_rows = 0;          ///< as in ColumnRule
    bool gumbel_noise = false;    ///< on the logits, as in ColumnRule
    double first_temperature = 1, last_temperature = 1;  ///< of the softmax
    /// Number of decode steps from the first temperature to the last; 0: the answer limit.
    int temperature_steps = 1;
  };
  /// Refuses more recent tokens than budget tokens, if both are numbers.
  explicit HeavyHitters(const Settings& s);

  std::vector<ColumnRule> columns() const override { return {rule(0, {})}; }
  KeepSets after_prefill(const LayerView& view) override;
  bool evicts_in_answers() const override { return s_.dynamic; }
  KeepSets after_decode(const LayerView& view) override;

 private:
  /// How a set's budget is divided, in tokens.
  struct Split {
    int recent = 0, hitters = 0;
  };
  struct Layer {
    std::vector<std::vector<float>> mass;  // [sets][n]: F
    int rows = 0;                          // summed in `mass`
    Split split;                           // determined at the end of a prompt
  };

  ColumnRule rule(int step, const DialogueView& dialogue) const;
  Split split(const LayerView& view) const;
  KeepSets evict(const LayerView& view, const ColumnMass& attention, Layer& layer) const;
  std::vector<float> scores(const KeptSet& set, std::span<const float> mass, int rows) const;

  Settings s_;
  std::vector<Layer> layers_;
};

}  // namespace turnbench
