#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "inference/cpu/gemm.h"
#include "tests/cpu/simd_levels.h"
#include "tests/inference/reference.h"

namespace turnbench {
namespace {

struct Shape {
  std::size_t rows, out, in;
  std::size_t more_x = 0, more_y = 0;  ///< added to the widths to give the strides
};

/// Covers a single row, rows that do not fill a register tile, more rows and depth than a block
/// holds, and outputs that do not fill a vector, a panel or a group of panels.
const Shape kShapes[] = {
    {1, 1, 1},           {1, 16, 7, 2, 3},     {1, 600, 130},  {1, 1100, 33, 1, 1},
    {2, 70, 65},         {5, 33, 897, 4, 5},   {12, 64, 2000}, {13, 64, 2000},
    {23, 40, 900, 0, 3}, {24, 100, 900, 2, 0}, {257, 70, 66},  {259, 33, 1800, 1, 1},
    {600, 40, 130}};

TEST(Linear, IsOneChainOfMultiplyAddsAtEverySimdLevel) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const Shape& s : kShapes) {
      const std::size_t ldx = s.in + s.more_x, ldy = s.out + s.more_y;
      const std::vector<float> x = test::random_floats(s.rows * ldx, 1),
                               bias = test::random_floats(s.out, 2);
      const std::vector<float> given = test::random_floats(s.out * s.in, 3),
                               w = test::rounded_to(dtype, given);
      const std::vector<std::byte> stored = test::stored_as(dtype, given);
      std::vector<float> chain(s.rows * s.out);
      std::vector<double> exact(chain.size());
      for (std::size_t r = 0; r < s.rows; ++r) {
        for (std::size_t o = 0; o < s.out; ++o) {
          float sum = 0;
          double plain = bias[o];
          for (std::size_t i = 0; i < s.in; ++i) {
            sum = std::fma(x[r * ldx + i], w[o * s.in + i], sum);
            plain += static_cast<double>(x[r * ldx + i]) * w[o * s.in + i];
          }
          chain[r * s.out + o] = sum + bias[o];
          exact[r * s.out + o] = plain;
        }
      }
      test::with_each_simd_level([&](std::int64_t target) {
        cpu::PackedMatrix packed = cpu::make_packed(s.out, s.in, dtype);
        cpu::pack_rows(packed, 0, stored.data(), dtype, s.out);
        for (const int threads : {1, 3}) {
          SCOPED_TRACE(fmt::format("{} rows, {} x {} {}, {}, {} threads", s.rows, s.out, s.in,
                                   name_of(dtype), hwy::TargetName(target), threads));
          ThreadPool pool(threads);
          constexpr float kUntouched = -77;
          std::vector<float> y(s.rows * ldy, kUntouched);
          cpu::linear(pool, MatrixView(x.data(), s.rows, s.in, ldx), packed, bias.data(),
                      MatrixView(y.data(), s.rows, s.out, ldy));
          for (std::size_t i = 0; i < y.size(); ++i) {
            const std::size_t r = i / ldy, o = i % ldy;
            if (o >= s.out) {
              ASSERT_EQ(y[i], kUntouched) << "row " << r << ", beyond its outputs";
            } else if (test::fuses(target)) {
              ASSERT_EQ(y[i], chain[r * s.out + o]) << "row " << r << ", output " << o;
            }
            if (o < s.out) {
              ASSERT_NEAR(y[i], exact[r * s.out + o], 1e-5 * std::sqrt(static_cast<double>(s.in)))
                  << "row " << r << ", output " << o;
            }
          }
        }
      });
    }
  }
}

}  // namespace
}  // namespace turnbench
