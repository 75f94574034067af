#pragma once

#include <optional>
#include <span>
#include <string>

#include "inference/policy/policy.h"

namespace turnbench {

// Why policies are refused that do not go together: before a run where settings tell, else in it.
/// @throws Error (input) if steps compute keys, and another cache rule than kPrevious forgets them.
void check_cache_rule(const SelectionPolicy& selection, Residency::Rule rule,
                      const std::string& method);
/// @throws Error (input) if the selection needs what the eviction does not leave: equally many
/// tokens in all sets of a layer, or whole answers where the eviction is called in answers too.
void check_eviction(const Policies& policies, bool evicts_in_answers);

/// Checks the results of policies where they enter the engine; caches and kernels rely on them. All
/// checks take linear time.
/// @throws Error (runtime) if a result is not as policy.h demands.  The message names the method,
/// the layer, the list, what was found and what was expected.
struct PolicyCheck {
  const std::string& method;  ///< name of the method; may be empty
  int layer = 0, heads = 0;   ///< number of query heads

  /// may_be_unequal: as the policy says (EvictionPolicy::keeps_unequal_sets).
  void keep(const KeepSets& kept, std::span<const KvHeadCache> sets, bool may_be_unequal) const;
  /// end: behind the slot of the last row that the selection is made for, if that is not the last
  /// slot of its set.
  void selection(const Selection& selection, std::span<const KvHeadCache> sets,
                 std::optional<std::int32_t> end = {}) const;
  void patterns(const std::vector<HeadPattern>& patterns, const PatternPass& pass) const;
  /// Checks the sizes of sets whose positions have shifted.  tokens: size of the first layer's
  /// first set.
  void shifted(std::span<const KvHeadCache> sets, int tokens) const;

  /// The method and the layer, and which of its policies decides there.
  std::string where(const char* decides) const;

 private:
  void lists(const std::vector<std::vector<std::int32_t>>& lists, std::span<const KvHeadCache> sets,
             const char* decides) const;
};

}  // namespace turnbench
