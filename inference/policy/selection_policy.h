#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "inference/kv/device_needs.h"
#include "inference/policy/layer_view.h"
#include "inference/policy/selection.h"

namespace turnbench {

/// Constants of a selection method.
struct SelectionTraits {
  int window = 0;              ///< recent query rows whose `window_mass` the policy reads
  bool pre_rope_keys = false;  ///< reads keys before RoPE, which the engine then stores
  /// The policy must process every pass: it cannot continue from tokens that were prefilled with
  /// full attention.
  bool needs_every_pass = false;
  bool needs_equal_sets = false;     ///< all sets of a layer must have equally many tokens
  bool needs_whole_answers = false;  ///< nothing may be evicted while an answer is decoded
  /// Allowed histories.  True: those that keep the cache between turns; false: those that do not.
  std::optional<bool> keeps_cache = {};
  /// `reads_pinned_only`: prefill and decode steps read all pinned tokens and no others.  Offloaded
  /// tokens are then transferred when the set of pinned tokens changes: for all layers at once, or,
  /// with `loads_by_layer`, layer by layer.
  bool reads_pinned_only = false, loads_by_layer = false;
  /// If not 0, and if `select` returns lists, relative distances are clamped to this value, as in
  /// InfLLM.  Requires `pre_rope_keys`.
  int max_distance = 0;
};

/// Decides which cached tokens decode attention reads.  Nothing is evicted.  Methods with further
/// needs also implement interfaces of selection_capabilities.h.
class SelectionPolicy {
 public:
  virtual ~SelectionPolicy() = default;
  virtual std::unique_ptr<SelectionPolicy> clone() const = 0;  ///< independent of this one
  virtual SelectionTraits traits() const { return {}; }
  /// The device memory that a turn's decode steps require for one layer.  known: the layer at the
  /// end of the prompt; null before `after_prefill` has been called, for example in memory
  /// estimates.  With null, the result must be an upper bound.  Enforced with placement=host only.
  virtual DeviceNeeds demand(const PromptSize& prompt, const LayerView* known) const;
  /// The pinned tokens of a set: those that must be on the device in the step in which the set has
  /// `tokens` tokens, whether or not the step selects them.  The ranges are ascending and disjoint,
  /// and the last one ends with the newest token.
  virtual std::vector<SlotRange> pinned(int layer, int set, int tokens) const;
  /// Builds the index of a layer at the end of a turn's prefill.  Sets and statistics are those
  /// after eviction.
  virtual void after_prefill(const LayerView&) {}
  /// The slots of a layer that a decode step reads.
  virtual Selection select(const LayerView& view) = 0;
  /// Named numbers for the record of a turn: reproducible and finite, each name once.
  virtual std::vector<std::pair<std::string, double>> counters() const { return {}; }
};

}  // namespace turnbench
