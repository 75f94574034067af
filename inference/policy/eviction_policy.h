#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "inference/policy/layer_view.h"
#include "inference/policy/scoring_passes.h"

namespace turnbench {

/// The slots to keep in a layer: [lists][slots].  No lists: all slots are kept.  There is either
/// one list per set of the LayerView, or one list per query head.  In the second case, each query
/// head gets a set of its own, and its list contains slots of the set of its KV head.  Slots ascend
/// strictly and are below the set's size.  Lists may have unequal lengths only if
/// `keeps_unequal_sets()` is true and positions do not shift.  The engine checks these rules, and
/// those of Selection and HeadPattern (policy_checks.h).
struct KeepSets {
  std::vector<std::vector<std::int32_t>> slots;
  bool keep_all() const { return slots.empty(); }
};

/// Decides which tokens stay in the cache after the prefill attention of a layer and, for methods
/// that also evict while decoding, after each decode step.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;
  virtual std::unique_ptr<EvictionPolicy> clone() const = 0;  ///< independent of this one
  /// The number of recent query rows whose `window_mass` or `window_queries` this policy uses: rows
  /// of the turn's prompt, and of its answer if the policy evicts while decoding.
  virtual int window() const { return 0; }
  /// The rules of the column masses that `after_prefill` uses.  These masses are sums over all rows
  /// of the prompt.
  virtual std::vector<ColumnRule> columns() const { return {}; }
  /// If a position is returned, `after_prefill` uses the `query_moments` of the prompt's rows from
  /// this position on; nullopt: it uses none.
  virtual std::optional<int> query_moments() const { return std::nullopt; }
  /// If not null, the engine computes these passes after a prompt of `prompt_tokens` tokens (as in
  /// LayerView), and then calls `after_prefill` for each layer with the result
  /// (LayerView::scoring).  In these calls, the view has no query rows, and of the statistics only
  /// `window_mass` is available.  A policy with scoring passes returns null for prompts whose
  /// tokens all stay.
  virtual std::unique_ptr<ScoringPasses> scoring_passes(int /*prompt_tokens*/) const {
    return nullptr;
  }
  /// True if kept tokens are renumbered to positions 0, 1, ...  The engine then stores pre-RoPE
  /// keys, and all sets of all layers must keep equally many tokens.
  virtual bool shifts_positions() const { return false; }
  /// True if `after_decode` evicts; if false, `after_decode` is not called.
  virtual bool evicts_in_answers() const { return false; }
  /// True if the sets of a layer may keep unequal numbers of tokens.
  virtual bool keeps_unequal_sets() const { return false; }
  /// Called for each layer at the end of a prompt.  With Policies::evicts_before_question, it is
  /// called where the turn's question begins instead, and the view ends there.  With
  /// Policies::compress_block, it is also called after each block of the prompt.
  virtual KeepSets after_prefill(const LayerView& view) = 0;
  virtual KeepSets after_decode(const LayerView&) { return {}; }
};

}  // namespace turnbench
