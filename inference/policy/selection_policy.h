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
  int window = 0;              ///< recent query rows whose `window_mass` it reads
  bool pre_rope_keys = false;  ///< it reads keys before RoPE, which the engine then stores too
  /// It cannot continue from tokens that full attention computed without it.
  bool needs_every_pass = false;
  bool needs_equal_sets = false;     ///< all sets of a layer must have equally many tokens
  bool needs_whole_answers = false;  ///< nothing may be evicted while an answer is decoded
  /// Made for dialogues whose cache persists over turns (true) or is prefilled anew in each turn
  /// (false); none: both.
  std::optional<bool> keeps_cache = {};
  /// Prompts and steps read the pinned tokens alone.  Offloaded tokens are transferred when the
  /// pinned set changes: for all layers at once, or layer by layer.
  bool reads_pinned_only = false, loads_by_layer = false;
  /// If not 0: relative distances are clamped to this value where `select` gives lists, which takes
  /// pre_rope_keys.
  int max_distance = 0;
};

/// Decides which cached tokens decode attention reads.  Nothing is evicted.  Methods that do more
/// than that also implement an interface of selection_capabilities.h.
class SelectionPolicy {
 public:
  virtual ~SelectionPolicy() = default;
  virtual std::unique_ptr<SelectionPolicy> clone() const = 0;
  virtual SelectionTraits traits() const { return {}; }
  /// What the decode steps of a turn need of a layer.  known: the layer at the end of the prompt,
  /// after `after_prefill`; null in estimates of memory, which are upper bounds.
  virtual DeviceNeeds demand(const PromptSize& prompt, const LayerView* known) const;
  /// The tokens of a set of `tokens` tokens that stay on the device, at the end of a prompt and in
  /// each step: ascending, disjoint ranges.  The last one ends with the newest token.
  virtual std::vector<SlotRange> pinned(int layer, int set, int tokens) const;
  /// Builds the index of a layer at the end of a turn's prefill.  Sets and statistics are those
  /// after eviction.
  virtual void after_prefill(const LayerView&) {}
  /// The slots that a decode step reads of a layer.
  virtual Selection select(const LayerView& view) = 0;
  /// Named numbers for the record of a turn, the same in every run.
  virtual std::vector<std::pair<std::string, double>> counters() const { return {}; }
};

}  // namespace turnbench
