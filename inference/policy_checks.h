#pragma once

#include <span>
#include <string>

#include "inference/policy.h"

namespace turnbench {

/// What policies hand over is checked where it enters the engine, once: from there on, caches and
/// kernels trust it.  A policy that breaks a promise of policy.h is a fault of its method, an Error
/// of kind kRuntime that names the method, the layer, the list, what was found and what was
/// expected.  Checks are linear in what they check.
struct PolicyCheck {
  const std::string& method;  ///< whose policies these are; may be empty
  int layer = 0, heads = 0;   ///< query heads of the model

  void keep(const KeepSets& kept, std::span<const KvHeadCache> sets) const;
  void selection(const Selection& selection, std::span<const KvHeadCache> sets) const;
  void patterns(const std::vector<HeadPattern>& patterns, const PatternPass& pass) const;
  /// Sets whose positions have shifted; `tokens` are those of the first layer's first set.
  void shifted(std::span<const KvHeadCache> sets, int tokens) const;

 private:
  std::string where(const char* decides) const;
  void lists(const std::vector<std::vector<std::int32_t>>& lists, std::span<const KvHeadCache> sets,
             const char* decides) const;
};

}  // namespace turnbench
