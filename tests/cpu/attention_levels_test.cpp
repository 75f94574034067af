#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cpu/attention_problem.h"
#include "tests/cpu/simd_levels.h"

namespace turnbench {
namespace {

/// Outputs of the last `rows` of `n` positions; 7 heads.
std::vector<float> attended(DType dtype, int head_dim, int n, int rows, int sliding_window) {
  test::AttentionProblem p(rows, n, 7, head_dim, dtype);
  p.job.sliding_window = sliding_window;
  ThreadPool pool(2);
  cpu::AttentionWorkspace workspace(pool.size());
  cpu::attend(pool, 0.125f, {&p.job, 1}, workspace);
  return p.out;
}

TEST(Attention, FusingSetsGiveTheSameBitsAtEverySimdLevel) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int head_dim : {64, 80}) {
      for (const int rows : {1, 70}) {
        for (const int window : {0, 100}) {
          std::vector<float> first;
          bool first_fuses = false;
          test::with_each_simd_level([&](std::int64_t target) {
            SCOPED_TRACE(fmt::format("{} rows, {}, head_dim {}, window {}, {}", rows,
                                     name_of(dtype), head_dim, window, hwy::TargetName(target)));
            const std::vector<float> out = attended(dtype, head_dim, 1100, rows, window);
            if (first.empty()) {
              first = out;
              first_fuses = test::fuses(target);
            }
            if (first_fuses && test::fuses(target)) {
              EXPECT_EQ(out, first);
            }
            for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], first[i], 1e-5);
          });
        }
      }
    }
  }
}

}  // namespace
}  // namespace turnbench
