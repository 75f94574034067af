#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cpu/simd_levels.h"
#include "tests/inference/selection.h"

namespace turnbench {
namespace {

TEST(Selection, FusingSetsGiveTheSameBitsAtEverySimdLevel) {
  const auto backend = make_cpu_backend(2);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int heads : {1, 4, 7}) {
      std::vector<float> first;
      bool first_fuses = false;
      test::with_each_simd_level([&](std::int64_t target) {
        SCOPED_TRACE(
            fmt::format("{}, {} heads, {}", name_of(dtype), heads, hwy::TargetName(target)));
        const std::vector<float> out = test::outputs_of_selection(*backend, dtype, heads, 80, 5001);
        if (first.empty()) {
          first = out;
          first_fuses = test::fuses(target);
        }
        if (first_fuses && test::fuses(target)) {
          EXPECT_EQ(out, first);
        } else {
          EXPECT_EQ(out.size(), first.size());
        }
      });
    }
  }
}

}  // namespace
}  // namespace turnbench
