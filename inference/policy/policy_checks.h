#pragma once

#include <optional>
#include <span>
#include <string>

#include "inference/policy/policy.h"

namespace turnbench {

// Checks that refuse incompatible policies.  They are called before a run, when its methods and
// manifest are read, and again by the engine.
/// @throws Error (input) if steps rebuild keys and the cache rule is not kPrevious: other rules
/// discard rebuilt keys.
void check_cache_rule(const SelectionPolicy& selection, Residency::Rule rule,
                      const std::string& method);
/// @throws Error (input) if the selection is incompatible with the eviction, for example because
/// the eviction has scoring passes.  The selection can require that all sets of a layer have
/// equally many tokens, or that no token is evicted while an answer is decoded.
void check_eviction(const Policies& policies, bool evicts_in_answers);
/// @throws Error (runtime) if the traits of the selection contradict each other.
void check_traits(const Policies& policies);
/// Checks the pinned tokens of KV set `set`, which has `tokens` tokens.
/// @throws Error (runtime) unless the ranges ascend, are disjoint, and end with the newest token.
void check_pinned(std::span<const SlotRange> pinned, int set, std::int32_t tokens);
/// @throws Error (input) if there is a codec and the selection writes keys itself (KeyRebuilder).
void check_codec(const Policies& policies);
/// @throws Error (input) if there is a codec and keys and values are in the memory of a GPU.
void check_codec_memory(const Policies& policies, bool is_gpu);

/// Checks the results of policies where the engine receives them, because caches and kernels rely
/// on valid results.  All checks take linear time.
/// @throws Error (runtime) if a result violates the rules of its type (KeepSets, Selection,
/// HeadPattern).  The message names the method, the layer, the list, the value found and the value
/// expected.
struct PolicyCheck {
  const std::string& method;  ///< name of the method; may be empty
  int layer = 0, heads = 0;   ///< heads: number of query heads

  /// may_be_unequal: EvictionPolicy::keeps_unequal_sets of the policy.
  void keep(const KeepSets& kept, std::span<const KvHeadCache> sets, bool may_be_unequal) const;
  /// end: the slot after that of the last query row; nullopt: the number of slots of the set.  With
  /// `reads_pinned_only`, also checks that `policy` reads the pinned tokens and no others.
  void selection(const Selection& selection, const SelectionPolicy& policy,
                 std::span<const KvHeadCache> sets, std::optional<std::int32_t> end = {}) const;
  void patterns(const std::vector<HeadPattern>& patterns, const PatternPass& pass) const;
  /// Checks the sizes of sets whose positions have shifted.  tokens: the size of the first layer's
  /// first set, which all sets must have.
  void shifted(std::span<const KvHeadCache> sets, int tokens) const;

  /// Names the method, the layer and the policy (`decides`) for messages.
  std::string where(const char* decides) const;

 private:
  void reads_pinned(const Selection& selection, const SelectionPolicy& policy,
                    std::span<const KvHeadCache> sets, std::optional<std::int32_t> end) const;
  void lists(const std::vector<std::vector<std::int32_t>>& lists, std::span<const KvHeadCache> sets,
             const char* decides) const;
};

}  // namespace turnbench
