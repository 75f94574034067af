#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "inference/cpu/attention.h"
#include "inference/cpu/bf16_unit.h"
#include "tests/cpu/emulated_amx.h"
#include "tests/inference/reference.h"
#include "tests/inference/set_rows.h"

namespace turnbench {
namespace {

/// The outputs of `rows` rows over 200 keys, in one call or row by row.
std::vector<float> attention(int rows, int heads, int head_dim, bool row_by_row) {
  constexpr int kKeys = 200;
  std::vector<std::int32_t> positions(kKeys);
  std::iota(positions.begin(), positions.end(), 0);
  const auto floats = [](int n, int seed) {
    return test::random_floats(static_cast<std::size_t>(n), static_cast<std::uint64_t>(seed));
  };
  const KvHeadCache set = test::make_set(floats(kKeys * head_dim, 1), floats(kKeys * head_dim, 2),
                                         head_dim, positions, DType::kBF16);
  const int width = heads * head_dim;
  const std::vector<float> q = test::rounded_to(DType::kBF16, floats(rows * width, 3));
  std::vector<float> out(q.size());
  ThreadPool pool(2);
  cpu::AttentionWorkspace workspace(2);
  const int step = row_by_row ? 1 : rows;
  for (int r = 0; r < rows; r += step) {
    AttentionJob job;
    job.keys = &set;
    job.q = MatrixView(q.data(), rows, width).rows_at(r, step);
    job.out = MatrixView(out.data(), rows, width).rows_at(r, step);
    job.positions = positions.data() + kKeys - rows + r;
    job.pass = {job.positions[0], step};
    job.math = Math::kBF16;
    cpu::attend(pool, 1 / std::sqrt(static_cast<float>(head_dim)), {&job, 1}, workspace);
  }
  return out;
}

// Prompts and decode steps, whatever multiplies bf16.
TEST(Bf16Attention, HasTheSameBitsWithEveryUnit) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx512f")) GTEST_SKIP() << "needs AVX-512";
  const cpu::Bf16Unit before = cpu::bf16_unit();
  std::vector<cpu::Bf16Unit> units = cpu::bf16_units();
  std::optional<test::EmulatedAmx> emulated;
  if (std::ranges::count(units, cpu::Bf16Unit::kTiles) == 0 &&
      std::ranges::count(cpu::deviating_bf16_units(), cpu::Bf16Unit::kTiles) == 0) {
    emulated.emplace();
    units.push_back(cpu::Bf16Unit::kTiles);
  }
  for (const int heads : {1, 7, 9}) {
    for (const int head_dim : {20, 64}) {
      for (const int rows : {1, 3, 65}) {
        cpu::use_bf16_unit(cpu::Bf16Unit::kMultiplyAdd);
        const std::vector<float> want = attention(rows, heads, head_dim, false);
        for (const cpu::Bf16Unit unit : units) {
          cpu::use_bf16_unit(unit);
          EXPECT_EQ(attention(rows, heads, head_dim, false), want)
              << cpu::name_of(unit) << ", " << rows << " rows, " << heads << " x " << head_dim;
          EXPECT_EQ(attention(rows, heads, head_dim, true), want)
              << cpu::name_of(unit) << ", single rows of " << rows;
        }
      }
    }
  }
  cpu::use_bf16_unit(before);
#endif
}

}  // namespace
}  // namespace turnbench
