#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "inference/attention_pattern.h"
#include "inference/attention_stats.h"
#include "inference/kv_cache.h"
#include "inference/placement.h"

namespace turnbench {

/// What a range of a rendered turn is.
enum class SpanKind { kHistory, kInstruction, kContext, kQuestion, kCue, kMarkup, kAnswer };

/// A labelled range [begin, end) of token positions.
struct Span {
  SpanKind kind = SpanKind::kContext;
  int turn = 0;
  std::int32_t begin = 0, end = 0;
};

/// What a policy may know of the dialogue it works in.
struct DialogueView {
  std::span<const int> tokens;  ///< everything up to the end of this pass (set by the engine)
  std::span<const Span> spans;
  int turn = 0;
  std::uint64_t seed = 0;  ///< of the dialogue and turn: equal for every method
  std::function<std::string(int token)> token_text;
};

/// One layer of one sequence, at the moment a policy is asked.
struct LayerView {
  int layer = 0;
  ModelShape shape;
  std::span<const KvHeadCache> sets;  ///< what is cached, this pass included
  AttentionStats& stats;
  const DialogueView& dialogue;
  std::int32_t first_position = 0;  ///< of the pass's first row; rows have consecutive positions
  int rows = 0;
  /// Tokens of the dialogue up to the end of the turn's prompt (of this pass during prefill), still
  /// cached or not: what shares of a prompt are shares of.
  int prompt_tokens = 0;
  int generated = 0;  ///< tokens of this turn's answer, this pass included (0 during prefill)

  /// Query heads that read one set.
  int heads_per_set() const { return shape.heads / static_cast<int>(sets.size()); }
};

/// What stays of a layer: [lists][kept slots], or no list at all, which keeps everything.  There is
/// a list for each set of the LayerView, or one for each query head, which then gets a set of its
/// own; list i is about set i * sets / lists.  Slots ascend without repeats from 0 to below the
/// set's size.  Lists may be of different lengths, unless positions shift.  The engine refuses
/// anything else (policy_checks.h), as it does for Selection and the patterns of a prefill.
struct KeepSets {
  std::vector<std::vector<std::int32_t>> slots;
  bool keep_all() const { return slots.empty(); }
};

/// What decode attention reads of a layer: [lists][slots], or no list at all, which reads
/// everything.  Lists and slots are as in KeepSets; the current token's slot, the last one of its
/// set, must be in every list.
struct Selection {
  std::vector<std::vector<std::int32_t>> slots;
  bool all() const { return slots.empty(); }
};

/// Decides which (query, key) pairs a layer's prefill attention computes.
class PrefillPolicy {
 public:
  virtual ~PrefillPolicy() = default;
  virtual std::unique_ptr<PrefillPolicy> clone() const = 0;
  /// Whether a prompt that goes on from an earlier one may go on from what the earlier one cached.
  /// If not, each prompt is computed from its first token, because its rows would come out
  /// differently.
  virtual bool reuses_cached_prompt() const { return false; }
  /// Whether a turn's rows begin with the previous answer even where its tokens are cached.
  virtual bool recomputes_answer() const { return false; }
  /// One pattern per query head, or none for dense attention.  Columns and offsets ascend without
  /// repeats from 0 to the position of the pass's last row; kBlocks has a list for every
  /// `block_rows` rows, each of ascending blocks of the grid.
  virtual std::vector<HeadPattern> plan(const LayerView& view) = 0;
};

/// Decides which tokens stay in the cache after a layer's prefill attention, and, for methods that
/// evict while they decode, after each decode step.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;
  virtual std::unique_ptr<EvictionPolicy> clone() const = 0;
  /// Most recent query rows that `after_prefill` asks the statistics for.
  virtual int window() const { return 0; }
  /// Column masses over all rows of the prompt that `after_prefill` asks the statistics for.
  virtual std::vector<ColumnRule> columns() const { return {}; }
  /// Re-assigns positions 0, 1, ... to the kept tokens; the engine then keeps unrotated keys.  All
  /// sets of all layers must then keep equally many tokens.
  virtual bool shifts_positions() const { return false; }
  virtual KeepSets after_prefill(const LayerView& view) = 0;
  virtual KeepSets after_decode(const LayerView&) { return {}; }
};

/// Decides which cached tokens decode attention reads; nothing is lost.
class SelectionPolicy {
 public:
  virtual ~SelectionPolicy() = default;
  virtual std::unique_ptr<SelectionPolicy> clone() const = 0;
  /// Most recent query rows that it asks the statistics for.
  virtual int window() const { return 1; }
  /// Called for each layer when a turn's prefill has passed it, to build what `select` needs.  Sets
  /// and statistics are of what the eviction policy has left.
  virtual void after_prefill(const LayerView&) {}
  virtual Selection select(const LayerView& view) = 0;
};

/// Where keys and values live.  On this backend both tiers are RAM; the traffic is counted exactly.
struct Placement {
  bool host = false;
  int cache_tokens = 0;  ///< device cache per KV set and layer
  int cache_block = 128;
  DeviceCache::Rule rule = DeviceCache::Rule::kLru;
};

/// What a method decides: at most three policies and a placement.
struct Policies {
  std::unique_ptr<PrefillPolicy> prefill;
  std::unique_ptr<EvictionPolicy> eviction;
  std::unique_ptr<SelectionPolicy> selection;
  Placement placement;
  std::string method = {};  ///< whose they are, for messages; may be empty

  Policies clone() const {
    return {prefill ? prefill->clone() : nullptr, eviction ? eviction->clone() : nullptr,
            selection ? selection->clone() : nullptr, placement, method};
  }
  /// Query rows that must be remembered for them.
  int window() const {
    return std::max(eviction ? eviction->window() : 0, selection ? selection->window() : 0);
  }
  bool pre_rope_keys() const { return eviction && eviction->shifts_positions(); }
};

}  // namespace turnbench
