#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "inference/cpu/attention.h"
#include "tests/cpu/simd_levels.h"
#include "tests/inference/reference.h"

namespace turnbench {
namespace {

/// Outputs of the last `rows` of `n` positions, 7 heads.
std::vector<float> attended(DType dtype, int head_dim, int n, int rows, int sliding_window) {
  constexpr int kHeads = 7;
  const auto width = static_cast<std::size_t>(head_dim);
  KvHeadCache set(std::make_shared<KvPool>(PageLayout{head_dim, dtype, false}));
  const std::vector<float> keys = test::random_floats(static_cast<std::size_t>(n) * width, 1),
                           values = test::random_floats(keys.size(), 2);
  for (int j = 0; j < n; ++j) {
    const std::size_t at = static_cast<std::size_t>(j) * width;
    set.append(keys.data() + at, values.data() + at, nullptr, j);
  }
  const std::vector<float> q =
      test::random_floats(static_cast<std::size_t>(rows * kHeads) * width, 3);
  std::vector<float> out(q.size());
  std::vector<std::int32_t> positions(static_cast<std::size_t>(rows));
  std::iota(positions.begin(), positions.end(), n - rows);
  AttentionJob job;
  job.keys = &set;
  job.q = q.data();
  job.out = out.data();
  job.q_stride = job.out_stride = kHeads * width;
  job.heads = kHeads;
  job.positions = positions.data();
  job.rows = rows;
  job.sliding_window = sliding_window;
  job.pass = {n - rows, rows};
  ThreadPool pool(2);
  cpu::AttentionWorkspace workspace(pool.size());
  cpu::attend(pool, 0.125f, {&job, 1}, workspace);
  return out;
}

TEST(AttentionLevels, InstructionSetsThatFuseGiveTheSameBits) {
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
