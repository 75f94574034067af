#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "methods/parts/eviction_scorer.h"
#include "methods/parts/window_settings.h"

namespace turnbench {

/// Evicts once, at the end of a prompt.  Keeps the last tokens (the window) and, of the tokens
/// before it, those with the highest scores, within a budget that the layers and the sets of a
/// layer share.
class BudgetedEviction : public Cloned<BudgetedEviction, EvictionPolicy> {
 public:
  /// How the sets of a layer share its budget by their scores (Ada-KV, Algorithm 1).
  struct AdaptiveSets {
    double floor_alpha = 0;  ///< part of the mean budget that every set gets at least
    bool exact = true;       ///< as in `safeguarded_budgets`
    /// Multiplies the scores of a set by the share of its best tokens in their sum.
    bool normalize = false;
    int skipped_layers = 0;  ///< first layers, whose sets have equal budgets
  };
  /// How a set chooses in two stages (Feng et al., CriticalKV, 2025, Algorithm 1): the first by
  /// scores, the second by (score + epsilon) * output norm (output_norms.h).
  struct TwoStages {
    double first_share = 0.5;  ///< of the set's budget, the window included
    double epsilon = 1e-4;     ///< in units of a mean attention probability
  };
  struct Settings {
    WindowSettings window;  ///< also the budgets of the layers and the kept sets
    std::shared_ptr<const EvictionScorer> scorer;
    std::optional<AdaptiveSets> adaptive = {};  ///< nullopt: the sets have equal budgets
    /// All heads of a layer share one choice.  All sets must hold the same tokens.
    bool one_choice = false;
    int chunk = 1;  ///< tokens that are kept or evicted together
    std::optional<TwoStages> two_stages = {};
    int reuse = 1;  ///< consecutive layers that share the first one's choice
  };
  explicit BudgetedEviction(Settings settings) : s_(std::move(settings)) {}

  int window() const override { return s_.scorer->window(); }
  std::vector<ColumnRule> columns() const override { return s_.scorer->columns(); }
  std::optional<int> query_moments() const override { return s_.scorer->query_moments(); }
  bool keeps_unequal_sets() const override { return s_.adaptive && s_.adaptive->floor_alpha < 1; }
  KeepSets after_prefill(const LayerView& view) override;

 private:
  KeepSets choose(const LayerView& view) const;
  std::vector<std::int32_t> best_of(const LayerView& view, const KeptSet& set,
                                    const std::vector<float>& scores, int budget) const;

  Settings s_;
  KeepSets chosen_;  ///< of the last layer that chose
};

}  // namespace turnbench
