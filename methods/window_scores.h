#pragma once

#include <string_view>
#include <vector>

#include "methods/layer_budget.h"
#include "methods/scores.h"

namespace turnbench {

/// One kept set of a layer: the query heads that read it, and the cached tokens it can keep.
struct KeptSet {
  int first_head = 0, heads = 1;
  int tokens = 0;
};

/// The layer's kept sets: one per cached set, or one per query head.
std::vector<KeptSet> kept_sets(const LayerView& view, bool per_query_head);

/// What the tokens before the window are scored by, for each query head.
enum class Scorer {
  kSnapKv,    ///< attention from the window's rows, pooled
  kH2o,       ///< attention from all rows
  kTova,      ///< attention from the last row
  kKeyformer  ///< attention from all rows with Gumbel noise
};

Scorer parse_scorer(const std::string& name);

/// What the methods share that keep the last tokens of a prompt (the window) and the tokens before
/// it that score best: a budget that includes the window, and SnapKV's scores.
struct WindowSettings {
  LayerBudget budget;
  int window = 0, kernel = 1;
  Scorer scorer = Scorer::kSnapKv;
  Pooling pooling = Pooling::kNone;
  GroupRule group = GroupRule::kMean;
  bool per_query_head = false;

  /// Tokens that the layer chooses before the window; all of a prompt that the budget holds.
  /// Refuses a budget that the window fills.
  int choices(const LayerView& view) const;

  /// What the scores ask of the statistics: the last rows of the prompt, or masses over all rows.
  int rows() const;
  std::vector<ColumnRule> columns() const;

  /// Scores of the tokens before the window of a set: attention probabilities of the scorer's rows,
  /// summed, reduced over the heads of the set; those of the window's rows are pooled.
  std::vector<float> scores(const LayerView& view, const KeptSet& set) const;

  /// The `count` best tokens before the window, and the window; scores only if it must choose.
  std::vector<std::int32_t> kept(const LayerView& view, const KeptSet& set, int count) const;
};

/// Parameters "budget" and "window" with their defaults.
std::vector<ParameterInfo> budget_parameters(std::string_view budget, std::string_view window);
/// The same, then "kernel", "pool", "gran" and "gqa_agg".
std::vector<ParameterInfo> window_parameters(std::string_view budget, std::string_view window,
                                             std::string_view kernel);
/// What the first list declares; refuses a budget that the window fills.
WindowSettings budget_settings(std::string_view method, const Parameters& parameters);
/// What the second list declares; refuses an even kernel, too.
WindowSettings window_settings(std::string_view method, const Parameters& parameters);

/// The same list with more at its end.
std::vector<ParameterInfo> and_also(std::vector<ParameterInfo> list,
                                    const std::vector<ParameterInfo>& more);

}  // namespace turnbench
