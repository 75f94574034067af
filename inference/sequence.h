#pragma once

#include <cstdint>
#include <vector>

#include "inference/attention_stats.h"
#include "inference/kv_cache.h"
#include "inference/placement.h"
#include "inference/policy.h"

namespace turnbench {

/// What a sequence has cost so far.
struct Counters {
  double attended_tokens = 0;   ///< sum over decode steps, layers and KV heads of the tokens read
  std::int64_t attentions = 0;  ///< terms of that sum
  double prefill_pairs = 0;  ///< (query, key) pairs computed by prefill attention, all query heads
  double prefill_pairs_dense = 0;  ///< what dense causal attention would have computed
  double policy_seconds = 0;       ///< spent in policies and their statistics
  Traffic traffic;

  double mean_attended() const {
    return attentions == 0 ? 0 : attended_tokens / static_cast<double>(attentions);
  }
};

/// One dialogue under one method while it runs.  Move-only; `fork` shares the cached pages until
/// one side writes.
class Sequence {
 public:
  /// `pools`, one for each layer, decide the KV dtype and whether unrotated keys are kept;
  /// `tail_rows` query rows are remembered per layer (at least what the policies ask for).
  Sequence(const ModelShape& shape, Policies policies, std::vector<std::shared_ptr<KvPool>> pools,
           int tail_rows);

  Sequence fork() const;
  /// A fork with other policies.
  Sequence fork_as(Policies policies) const;
  /// Back to the state after the first `position` tokens.  Only for sequences that evict nothing
  /// and have no forks that ask for column masses.
  void truncate(std::int32_t position);

  const ModelShape& shape() const { return shape_; }
  int tail_rows() const { return tail_rows_; }

  std::vector<int> tokens;         ///< processed so far, in dialogue order
  std::int32_t next_position = 0;  ///< of the next token; tokens.size() unless positions shift
  int prompt_tokens = 0;           ///< tokens processed when the last prompt ended
  int generated = 0;               ///< tokens fed since then
  KvCache cache;
  Policies policies;
  std::vector<QueryTail> tails;       ///< per layer
  std::vector<ColumnMasses> columns;  ///< per layer: of the rows prefilled so far
  /// Per layer and set; empty unless placed on the host.
  std::vector<std::vector<DeviceCache>> device_caches;
  Counters counters;

 private:
  ModelShape shape_;
  int tail_rows_;
};

}  // namespace turnbench
