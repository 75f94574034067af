#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "inference/engine/held_layer.h"
#include "inference/engine/offloaded_layer.h"
#include "inference/kv/kv_cache.h"
#include "inference/kv/ledger.h"
#include "inference/policy/attention_stats.h"
#include "inference/policy/policy.h"

namespace turnbench {

/// Counters of the work of a sequence so far.
struct Counters {
  /// Tokens read by decode attention, summed over steps, layers and sets.
  double attended_tokens = 0;
  std::int64_t attentions = 0;  ///< number of terms of this sum
  double prefill_pairs = 0;  ///< (query, key) pairs computed by prefill attention, all query heads
  double prefill_pairs_dense = 0;  ///< what dense causal attention would compute
  double policy_seconds = 0;       ///< time in policies and their statistics
  /// What crossed the link between host and device in this turn; empty if all is on the device.
  Ledger ledger;

  double mean_attended() const {
    return attentions == 0 ? 0 : attended_tokens / static_cast<double>(attentions);
  }
};

/// The state of one dialogue with one method: tokens, KV cache, policies.  Move-only.  A fork
/// shares cached pages until one side writes.
class Sequence {
 public:
  /// pools: one for each layer; they determine the KV dtype and whether pre-RoPE keys are stored.
  /// tail_rows: recent query rows to store per layer, or as many as the policies need if that is
  /// more.
  Sequence(const ModelShape& shape, Policies policies, std::vector<std::shared_ptr<KvPool>> pools,
           int tail_rows);

  Sequence fork() const;
  /// Forks with other policies.
  Sequence fork_as(Policies policies) const;
  /// Returns to the state after the first `position` tokens.  Only valid if nothing was evicted and
  /// no fork uses column masses.
  void truncate(std::int32_t position);

  /// Whether steps read a layer's working set, or what it holds.
  bool is_offloaded() const {
    const auto is_there = [](const auto& l) { return l != nullptr; };
    return std::any_of(offloaded.begin(), offloaded.end(), is_there) ||
           std::any_of(held.begin(), held.end(), is_there);
  }

  // Bytes without what pages round up to, the same for a sequence whose pages others share or not:
  /// Of the cached tokens' keys and values wherever they are, also of keys before RoPE if the
  /// policies need them, of keys that a policy keeps in another form, and of a retriever's.
  std::size_t kv_bytes() const;
  /// Of these what is on the device: layers that are there whole, working sets with all their slots
  /// of those in host memory.  Working sets beside layers on the device come on top.
  std::size_t resident_kv_bytes() const;
  /// Of these, slots of working sets that were added because an answer needed more than was
  /// promised at the end of its prompt.
  std::size_t added_kv_bytes() const;

  /// The retriever with this key; null if there is none.
  const Retriever* find_retriever(const std::string& key) const;

  const ModelShape& shape() const { return shape_; }
  int tail_rows() const { return tail_rows_; }

  std::vector<int> tokens;         ///< all tokens so far, including evicted ones
  std::int32_t next_position = 0;  ///< of the next token; tokens.size() unless positions shift
  int prompt_tokens = 0;           ///< tokens processed when the last prompt ended
  int generated = 0;               ///< tokens since then
  bool answered = false;           ///< the last pass was a step of an answer
  KvCache cache;
  Policies policies;
  /// Per layer.  Rows of an answer are stored if steps read them, or their observers may.  A prompt
  /// that follows an answer begins with none, so that its window is the same in either case.
  std::vector<QueryTail> tails;
  std::vector<ColumnMasses> columns;     ///< per layer, of the rows prefilled so far
  std::unique_ptr<Retriever> retriever;  ///< of the selection policy; may be null
  /// Of sequences that share this one's prefill, as far as it has none like theirs.
  std::vector<std::unique_ptr<Retriever>> fork_retrievers;
  /// Per layer; null if the layer is on the device.  Else `cache` has its tokens in host memory.
  std::vector<std::unique_ptr<OffloadedLayer>> offloaded;
  /// The same of layers that hold nothing but what is pinned; null in all others.
  std::vector<std::unique_ptr<HeldLayer>> held;
  /// Per layer; of those on the device whose method has a host placement, what the last step read.
  std::vector<Selection> last_read;
  /// Per layer; while a prefill pass has its tokens on the device, those before the pass in host
  /// memory.
  std::vector<std::vector<KvHeadCache>> host_copies;
  Counters counters;

 private:
  /// A key and a value, and a key before RoPE if the policies need it.
  std::size_t rows_per_token() const { return policies.pre_rope_keys() ? 3 : 2; }
  /// Bytes of keys that the policy keeps in another form, and of its retriever's.
  std::size_t policy_key_bytes() const;

  ModelShape shape_;
  int tail_rows_;
};

}  // namespace turnbench
