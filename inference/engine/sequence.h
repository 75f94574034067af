#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "inference/kv/layer_kv.h"
#include "inference/kv/ledger.h"
#include "inference/policy/attention_stats.h"
#include "inference/policy/policy.h"

namespace turnbench {

/// Counters of the work of a sequence so far.
struct Counters {
  /// Tokens read by decode attention, summed over steps, layers and sets.
  double attended_tokens = 0;
  std::int64_t attentions = 0;  ///< number of terms in `attended_tokens`
  double prefill_pairs = 0;  ///< (query, key) pairs computed by prefill attention, all query heads
  double prefill_pairs_dense = 0;  ///< pairs that dense causal attention would compute
  double policy_seconds = 0;       ///< time in policies and their statistics
  /// Transfers between host and device in this turn; empty if nothing is offloaded.
  Ledger ledger;

  double mean_attended() const {
    return attentions == 0 ? 0 : attended_tokens / static_cast<double>(attentions);
  }
};

/// The state of one layer of a sequence.
struct LayerState {
  LayerKv kv;
  /// Rows of an answer are stored if steps or observers may read them.  A prompt that follows an
  /// answer starts with an empty tail, so that its window does not depend on this.
  QueryTail tail;
  ColumnMasses columns = {};  ///< of the rows prefilled so far
};

/// The state of one dialogue with one method: tokens, layers, policies.  Move-only.  A fork shares
/// cached pages until one side writes.
class Sequence {
 public:
  /// storage: of each layer; it determines the KV dtype and whether pre-RoPE keys are stored.
  /// tail_rows: recent query rows to store per layer, at least; the policies may need more.
  Sequence(const ModelShape& shape, Policies policies,
           std::span<const std::shared_ptr<const KvStorage>> storage, int tail_rows);

  Sequence fork() const;
  /// Forks the sequence with other policies.
  Sequence fork_as(Policies policies) const;
  /// Restores the state after the first `position` tokens.  Only valid if nothing was evicted and
  /// no fork uses column masses.
  void truncate(std::int32_t position);

  /// The cached tokens of a layer, one set for each KV head or for each query head.
  std::vector<KvHeadCache>& sets(int layer) { return at(layer).kv.sets(); }
  const std::vector<KvHeadCache>& sets(int layer) const { return at(layer).kv.sets(); }
  LayerState& at(int layer) { return layers[layer]; }
  const LayerState& at(int layer) const { return layers[layer]; }

  /// Whether any layer is offloaded (LayerKv::is_offloaded).
  bool is_offloaded() const {
    return std::any_of(layers.begin(), layers.end(),
                       [](const LayerState& l) { return l.kv.is_offloaded(); });
  }
  /// True if any set stores pre-RoPE keys, because of its pool's layout or because it shares pages
  /// with a sequence that stores them.
  bool stores_pre_rope_keys() const;
  double mean_tokens() const;      ///< cached tokens per set, over layers and sets
  std::size_t page_bytes() const;  ///< of the pages of all sets, including shared ones
  /// Bytes of `rows` rows of each cached token of all sets: keys and values, then pre-RoPE keys.
  std::size_t logical_bytes(std::size_t rows = 2) const;

  // Bytes without the rounding to whole pages, regardless of whether pages are shared:
  /// Keys and values of the cached tokens in either memory, keys before RoPE if the policies need
  /// them, keys that a policy stores in another form, and keys of a retriever.
  std::size_t kv_bytes() const;
  /// The part on the device: whole layers, and all slots of the working sets of offloaded layers.
  /// Working sets of layers on the device (with rebuilt keys) are added.
  std::size_t resident_kv_bytes() const;
  /// The part of `resident_kv_bytes` in working-set slots that were added because an answer needed
  /// more than the policy declared at the end of the prompt.
  std::size_t added_kv_bytes() const;

  /// The retriever with this key; null if there is none.
  const Retriever* find_retriever(const std::string& key) const;

  const ModelShape& shape() const { return shape_; }
  int tail_rows() const { return tail_rows_; }

  std::vector<int> tokens;         ///< all tokens so far, including evicted ones
  std::int32_t next_position = 0;  ///< of the next token; tokens.size() unless positions shift
  int prompt_tokens = 0;           ///< tokens processed when the last prompt ended
  int generated = 0;               ///< tokens since then
  bool answered = false;           ///< the last pass was a decode step
  std::vector<LayerState> layers;
  Policies policies;
  std::unique_ptr<Retriever> retriever;  ///< of the selection policy; may be null
  /// Retrievers of sequences that share this prefill, unless this sequence has the same retriever.
  std::vector<std::unique_ptr<Retriever>> fork_retrievers;
  Counters counters;

 private:
  /// Rows per token: a key and a value, and a key before RoPE if the policies need it.
  std::size_t rows_per_token() const { return policies.pre_rope_keys() ? 3 : 2; }
  /// Bytes of keys that the policy stores in another form, and of the keys of its retriever.
  std::size_t policy_key_bytes() const;
  /// Bytes of `rows` rows of a token, as in `logical_bytes`.
  std::size_t token_bytes(std::size_t rows) const {
    return layers.front().kv.pool()->layout().token_bytes(rows);
  }
  /// Bytes by which rows that are elements are larger than encoded ones, over all sets.
  std::size_t element_bytes(std::size_t rows) const;
  template <typename Visit>
  void for_each_set(const Visit& visit) const {
    for (const LayerState& layer : layers) {
      for (const KvHeadCache& set : layer.kv.sets()) visit(set);
    }
  }

  ModelShape shape_;
  int tail_rows_;
};

/// Cached tokens of the largest set of all layers.
std::int64_t cached_tokens(const Sequence& sequence);

}  // namespace turnbench
