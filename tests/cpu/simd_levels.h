#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string_view>

namespace turnbench::test {

/// Calls body(target) with the kernels of each instruction set that this machine supports, the best
/// set first.  The environment variable TURNBENCH_BEST_SIMD_LEVEL restricts it to the best one.
/// ctest sets the variable except for the tests named simd_levels, which run the cases named
/// ...AtEverySimdLevel.
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

/// True if an instruction set has fused multiply-add.  All such sets give sums with the same bits.
inline bool fuses(std::int64_t target) {
  return target <= HWY_AVX2 || target == HWY_NEON;  // better sets have lower bits
}

}  // namespace turnbench::test
