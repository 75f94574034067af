#include "inference/cpu/bf16_linear.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "inference/cpu/bf16_unit.h"
#include "tests/cpu/emulated_amx.h"
#include "tests/cpu/simd_levels.h"
#include "tests/inference/reference.h"

namespace turnbench {
namespace {

struct Bf16Shape {
  std::size_t rows, out, in;
  std::size_t more_x = 0, more_y = 0;  ///< added to the widths to give the strides
};

/// Covers a single row, rows and outputs that do not fill a tile, inputs that do not fill a block,
/// and more rows and depth than a block holds.
const Bf16Shape kBf16Shapes[] = {{1, 1, 1},           {1, 16, 7, 2, 3},      {1, 600, 130},
                                 {1, 1100, 33, 1, 1}, {2, 70, 65},           {3, 48, 96},
                                 {5, 33, 897, 4, 5},  {7, 17, 31, 0, 1},     {12, 64, 2000},
                                 {16, 32, 64},        {33, 49, 900, 0, 3},   {48, 100, 512, 2, 0},
                                 {239, 70, 66},       {241, 33, 1000, 1, 1}, {500, 40, 130}};

/// As the processor treats denormals.
float flushed(float x) {
  return std::fabs(x) < FLT_MIN ? std::copysign(0.0f, x) : x;
}

/// The sum as `cpu::multiply` defines it.
float chain(const float* x, const float* w, std::size_t in) {
  float sum = 0;
  for (std::size_t first = 0; first < in; first += 32) {
    float even = 0, odd = 0;
    for (std::size_t i = first; i < std::min(first + 32, in); ++i) {
      float& of = i % 2 == 0 ? even : odd;
      of = flushed(std::fma(flushed(x[i]), flushed(w[i]), of));
    }
    sum = flushed(sum + flushed(even + odd));
  }
  return sum;
}

struct Problem {
  Bf16Shape shape;
  std::vector<float> x, w, bias;  ///< strides of x and y as in the shape; w as given

  std::size_t ldx() const { return shape.in + shape.more_x; }
  std::size_t ldy() const { return shape.out + shape.more_y; }

  /// The sums by definition, [rows, out].
  std::vector<float> expected() const {
    const std::vector<float> rounded = test::rounded_to(DType::kBF16, x),
                             weights = test::rounded_to(DType::kBF16, w);
    std::vector<float> out;
    for (std::size_t r = 0; r < shape.rows; ++r) {
      for (std::size_t o = 0; o < shape.out; ++o) {
        const float sum =
            chain(rounded.data() + r * ldx(), weights.data() + o * shape.in, shape.in);
        out.push_back(bias.empty() ? sum : flushed(sum + bias[o]));
      }
    }
    return out;
  }

  /// Calls the product with several numbers of threads; y must have the bits of `want`.
  void expect(const std::vector<float>& want, std::int64_t target) const {
    cpu::PairedMatrix matrix = cpu::make_paired(shape.out, shape.in);
    cpu::pack_rows(matrix, 0, w.data(), DType::kF32, shape.out);
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(fmt::format("{} rows, {} x {}, {}, {} threads", shape.rows, shape.out, shape.in,
                               hwy::TargetName(target), threads));
      ThreadPool pool(threads);
      Scratch scratch;
      constexpr float kUntouched = -77;
      std::vector<float> y(shape.rows * ldy(), kUntouched);
      cpu::linear_bf16(pool, MatrixView(x.data(), shape.rows, shape.in, ldx()), matrix.view(),
                       bias.empty() ? nullptr : bias.data(),
                       MatrixView(y.data(), shape.rows, shape.out, ldy()), scratch);
      EXPECT_LE(scratch.bytes(),
                cpu::RoundedRows::floats(shape.rows, shape.in, cpu::bf16_unit()) * sizeof(float));
      for (std::size_t i = 0; i < y.size(); ++i) {
        const std::size_t r = i / ldy(), o = i % ldy();
        if (o >= shape.out) {
          ASSERT_EQ(y[i], kUntouched) << "row " << r << ", beyond its outputs";
        } else if (test::fuses(target)) {
          ASSERT_EQ(y[i], want[r * shape.out + o]) << "row " << r << ", output " << o;
        } else {
          ASSERT_NEAR(y[i], want[r * shape.out + o],
                      1e-5 * std::sqrt(static_cast<double>(shape.in)))
              << "row " << r << ", output " << o;
        }
      }
    }
  }
};

Problem problem(const Bf16Shape& s) {
  return {s, test::random_floats(s.rows * (s.in + s.more_x), 1),
          test::random_floats(s.out * s.in, 3), test::random_floats(s.out, 2)};
}

/// Products and sums that are denormal, or that lose denormals on their way.
Problem tiny_values() {
  Problem out = problem({20, 40, 70});
  out.bias.clear();
  for (std::size_t i = 0; i < out.x.size(); ++i) out.x[i] *= i % 3 == 0 ? 1e-39f : 1e-19f;
  for (std::size_t i = 0; i < out.w.size(); ++i) out.w[i] *= i % 5 == 0 ? 1e-39f : 1e-19f;
  return out;
}

/// Restores the unit of products.
class Bf16Linear : public testing::Test {
 protected:
  Bf16Linear() : unit_(cpu::bf16_unit()) {}
  ~Bf16Linear() override { cpu::use_bf16_unit(unit_); }

  static bool has(cpu::Bf16Unit unit) { return std::ranges::count(cpu::bf16_units(), unit) > 0; }
  static bool deviates(cpu::Bf16Unit unit) {
    return std::ranges::count(cpu::deviating_bf16_units(), unit) > 0;
  }

 private:
  cpu::Bf16Unit unit_;
};

std::vector<Problem> all_problems() {
  std::vector<Problem> out = {tiny_values()};
  for (const Bf16Shape& shape : kBf16Shapes) out.push_back(problem(shape));
  return out;
}

TEST_F(Bf16Linear, HasTheBitsOfItsDefinitionAtEverySimdLevel) {
  cpu::use_bf16_unit(cpu::Bf16Unit::kMultiplyAdd);
  for (const Problem& p : all_problems()) {
    const std::vector<float> want = p.expected();
    test::with_each_simd_level([&](std::int64_t target) {
      // Without fused multiply-add, a product below the least normal number is lost.
      if (test::fuses(target) || p.shape.in != 70) p.expect(want, target);
    });
  }
}

#if defined(__x86_64__)
TEST_F(Bf16Linear, HasTheSameBitsWithDotProducts) {
  if (deviates(cpu::Bf16Unit::kDotProduct))
    GTEST_SKIP() << "VDPBF16PS of this processor computes other sums; products do not use it";
  if (!has(cpu::Bf16Unit::kDotProduct)) GTEST_SKIP() << "needs AVX512-BF16";
  cpu::use_bf16_unit(cpu::Bf16Unit::kDotProduct);
  for (const Problem& p : all_problems()) p.expect(p.expected(), HWY_AVX3);
}

TEST_F(Bf16Linear, HasTheSameBitsWithTiles) {
  if (!__builtin_cpu_supports("avx512f")) GTEST_SKIP() << "needs AVX-512";
  if (deviates(cpu::Bf16Unit::kTiles))
    GTEST_SKIP() << "the AMX of this processor computes other sums; products do not use it";
  std::optional<test::EmulatedAmx> emulated;
  if (!has(cpu::Bf16Unit::kTiles)) emulated.emplace();
  cpu::use_bf16_unit(cpu::Bf16Unit::kTiles);
  const long before = test::emulated_tile_products();
  for (const Problem& p : all_problems()) p.expect(p.expected(), HWY_AVX3);
  EXPECT_EQ(test::emulated_tile_products() > before, emulated.has_value());
}
#endif

TEST_F(Bf16Linear, RoundsToNearestEven) {
  // Halfway between bf16 numbers, above and below; infinity; more than the greatest bf16 number.
  const std::vector<float> x = {1.00390625f, 1.01171875f, -1.00390625f,
                                1.0039064f,  3.4e38f,     INFINITY};
  const float want[] = {1.0f, 1.015625f, -1.0f, 1.0078125f, INFINITY, INFINITY};
  ThreadPool pool(1);
  Scratch scratch;
  for (std::size_t i = 0; i < x.size(); ++i) {
    cpu::PairedMatrix matrix = cpu::make_paired(1, 1);
    const float one = 1;
    cpu::pack_rows(matrix, 0, &one, DType::kF32, 1);
    float y = 0;
    cpu::linear_bf16(pool, MatrixView(x.data() + i, 1, 1), matrix.view(), nullptr,
                     MatrixView(&y, 1, 1), scratch);
    EXPECT_EQ(y, want[i]) << x[i];
  }
}

}  // namespace
}  // namespace turnbench
