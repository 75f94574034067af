#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "inference/kv/kv_cache.h"
#include "inference/kv/ledger.h"
#include "inference/kv/link.h"
#include "inference/kv/slot_copy.h"
#include "inference/model/arena.h"
#include "inference/policy/attention_stats.h"
#include "inference/policy/background.h"
#include "inference/policy/dialogue_view.h"
#include "inference/policy/layer_memo.h"

namespace turnbench {

class ScoringPasses;

/// Host-to-device transfer channel for the index of an offloaded layer.
struct IndexPath {
  std::shared_ptr<Link> link;      ///< null: the layer is on the device
  std::shared_ptr<Memory> memory;  ///< of the device
  LedgerEntry* ledger = nullptr;

  /// Starts copies of index data.  bits: the minimal size of these data in bits, for example 6 per
  /// 6-bit code.
  Link::Ticket submit(std::span<const Copy> copies, std::int64_t bits) const {
    ledger->index_bits += bits;
    return link->submit(copies, LinkDirection::kToDevice, LinkUse::kIndex, &ledger->index_bytes);
  }
};

/// One layer of one sequence in a pass, as a policy receives it.
struct LayerView {
  int layer = 0;
  ModelShape shape;
  /// The cached tokens, including those of this pass.  In a decode step of an offloaded layer, the
  /// sets are in host memory, which the backend may be unable to read (`can_read`): see
  /// RowsOnDevice, and read_keys_of_any_set in methods/.
  std::span<const KvHeadCache> sets;
  AttentionStats& stats;
  const DialogueView& dialogue;
  std::int32_t first_position = 0;  ///< of the pass's first row; rows have consecutive positions
  int rows = 0;
  /// Tokens of the dialogue up to the end of the turn's prompt (during prefill: to the end of this
  /// pass), including evicted ones.  Ratio budgets refer to this number.
  int prompt_tokens = 0;
  int generated = 0;  ///< tokens of this turn's answer, including this pass; 0 during prefill

  Backend* backend = nullptr;  ///< the backend of this layer

  // Of the fields below, eviction policies may use `scale`, `sliding_window`, `memo`, `scoring`,
  // `scratch` and `attention_out`; the others are for selections.
  MatrixView<const float> queries = {};  ///< of the pass, after RoPE: [rows, heads * head_dim]
  /// The queries rotated to relative distance `max_distance` (clamped RoPE), to be scored against
  /// keys before RoPE; null if the policy sets no `max_distance`.
  MatrixView<const float> far_queries = {};
  float scale = 1;         ///< of attention scores
  int sliding_window = 0;  ///< of the layer, in positions; 0: none
  /// At the end of a prompt: the memo shared by all sequences that continue from the same cached
  /// tokens; otherwise null.
  LayerMemo* memo = nullptr;
  /// For EvictionPolicy::after_prefill: the policy's scoring passes, all computed; null if it has
  /// none.
  const ScoringPasses* scoring = nullptr;
  /// True at the end of a prompt if the method has placement=host, whatever `demand` returns.  The
  /// layer is offloaded at this point, unless `demand` keeps it on the device.
  bool goes_to_host = false;
  BackgroundTasks* background = nullptr;
  /// Arrays in the backend's memory, valid until the policy has selected: until `select`,
  /// `end_selection` (JointSelection) or `after_prefill` returns.
  Arena* scratch = nullptr;
  IndexPath index_path = {};
  /// The output projection of the layer's attention: [hidden, heads * head_dim].
  const WeightMatrix* attention_out = nullptr;

  /// The number of query heads that read one set.
  int heads_per_set() const { return shape.heads / static_cast<int>(sets.size()); }
  /// The queries of a decode step for the query heads that read a set: [heads_per_set, head_dim].
  MatrixView<const float> step_queries(std::size_t set) const {
    const std::int64_t heads = heads_per_set();
    return MatrixView(queries.data, shape.heads, shape.head_dim)
        .rows_at(static_cast<std::int64_t>(set) * heads, heads);
  }
};

/// The size of a layer at the end of a prompt; it is known before the prompt is computed.
struct PromptSize {
  ModelShape shape;
  DType dtype = DType::kF32;  ///< of keys and values
  int layer = 0;
  int sets = 1;             ///< KV sets
  std::int32_t tokens = 0;  ///< of the largest set
  int prompt_tokens = 0;    ///< as in LayerView

  int heads_per_set() const { return shape.heads / sets; }
  /// Number of elements of the keys in all sets, with `of_tokens` tokens in each set.
  std::size_t key_elements(std::int64_t of_tokens) const {
    return static_cast<std::size_t>(of_tokens * sets * shape.head_dim);
  }
};
PromptSize prompt_size(const LayerView& view);

/// The pinned ranges of a set with `tokens` tokens: the first `sinks` tokens, and the slots from
/// `window_begin` to the last token.
std::vector<SlotRange> sinks_and_window(int sinks, int window_begin, int tokens);

}  // namespace turnbench
