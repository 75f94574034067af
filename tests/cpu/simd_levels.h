#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string_view>

namespace turnbench::test {

/// Calls body(target) with the kernels of each instruction set that this machine runs, best first.
/// The environment variable TURNBENCH_BEST_SIMD_LEVEL restricts it to the best one; ctest sets it
/// except in the tests named simd_levels, which run what is called ...AtEverySimdLevel.
inline void with_each_simd_level(const std::function<void(std::int64_t)>& body) {
  const std::string_view name = testing::UnitTest::GetInstance()->current_test_info()->name();
  ASSERT_NE(name.find("AtEverySimdLevel"), name.npos) << "the name of this test";
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body(target);
    if (std::getenv("TURNBENCH_BEST_SIMD_LEVEL") != nullptr) break;
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
