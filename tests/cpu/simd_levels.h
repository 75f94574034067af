#pragma once

#include <hwy/targets.h>

#include <cstdint>
#include <functional>

namespace turnbench::test {

/// body(target) with the kernels of each instruction set that this machine runs, best first.
inline void with_each_simd_level(const std::function<void(std::int64_t)>& body) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body(target);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

/// Whether an instruction set multiplies and adds with one rounding, so that its sums have the bits
/// of every other such set.
inline bool fuses(std::int64_t target) {
  return target <= HWY_AVX2 || target == HWY_NEON;  // better ones have lower bits
}

}  // namespace turnbench::test
