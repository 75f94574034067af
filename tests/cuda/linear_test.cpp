#include "inference/cuda/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "common/thread_pool.h"
#include "inference/cpu/gemm.h"
#include "inference/cuda/ceilings.h"
#include "tests/cuda/device_array.h"
#include "tests/inference/reference.h"

namespace turnbench {
namespace {

using test::DeviceArray;

constexpr float kUntouchedOutput = -77;

/// One product: its operands and their memory layout.
struct LinearProblem {
  std::int64_t rows, out, in;
  DType dtype = DType::kF32;
  bool bias = false;
  std::int64_t more_x = 0, more_y = 0;      ///< strides beyond the widths
  std::int64_t x_offset = 0, w_offset = 0;  ///< elements that take x and the weights off alignment

  std::int64_t ldx() const { return in + more_x; }
  std::int64_t ldy() const { return out + more_y; }
  std::vector<float> x() const { return test::random_floats(rows * ldx(), 1); }
  std::vector<float> w() const { return test::rounded_to(dtype, test::random_floats(out * in, 2)); }
  std::vector<float> b() const { return test::random_floats(out, 3); }
};

std::string describe(const LinearProblem& p) {
  return fmt::format("{} rows, {} x {} {}, bias {}, strides +{} +{}, offsets {} {}", p.rows, p.out,
                     p.in, name_of(p.dtype), p.bias, p.more_x, p.more_y, p.x_offset, p.w_offset);
}

class Linear : public testing::Test {
 protected:
  /// y with its stride, from rows [0, rows) of the problem's x.
  std::vector<float> run(const LinearProblem& p, std::int64_t rows) {
    DeviceArray<float> x(p.x(), p.x_offset), bias(p.b());
    DeviceArray<std::byte> w(test::stored_as(p.dtype, p.w()), p.w_offset * size_of(p.dtype));
    DeviceArray<float> y(std::vector<float>(rows * p.ldy(), kUntouchedOutput));
    cuda::linear(context_, gemm_, {x.data(), rows, p.in, p.ldx()}, {p.out, p.in, p.dtype, w.data()},
                 p.bias ? bias.data() : nullptr, {y.data(), rows, p.out, p.ldy()});
    context_.synchronize();
    return y.values();
  }

  /// Compares with sums in double precision, within a few roundings of the sum of magnitudes.
  void expect_right(const LinearProblem& p) {
    SCOPED_TRACE(describe(p));
    const std::vector<float> y = test::in_every_order([&] { return run(p, p.rows); });
    std::vector<float> x = p.x();
    if (p.rows > cuda::kFewRows) x = test::rounded_to(p.dtype, x);
    const std::vector<float> w = p.w(), b = p.b();
    for (std::int64_t r = 0; r < p.rows; ++r) {
      for (std::int64_t o = 0; o < p.ldy(); ++o) {
        const float found = y[r * p.ldy() + o];
        if (o >= p.out) {
          ASSERT_EQ(found, kUntouchedOutput) << "behind row " << r;
          continue;
        }
        double sum = p.bias ? static_cast<double>(b[o]) : 0, magnitude = std::abs(sum);
        for (std::int64_t i = 0; i < p.in; ++i) {
          const double product = static_cast<double>(x[r * p.ldx() + i]) * w[o * p.in + i];
          sum += product;
          magnitude += std::abs(product);
        }
        ASSERT_NEAR(found, sum, 1e-6 * magnitude) << "row " << r << ", output " << o;
      }
    }
  }

  cuda::Context context_{0};
  cuda::Gemm gemm_;
};

constexpr DType kWeightTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

TEST_F(Linear, MatchesDoubleSumsForAnyNumberOfRows) {
  for (DType dtype : kWeightTypes) {
    for (std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 64}) {
      expect_right({.rows = rows, .out = 37, .in = 896, .dtype = dtype, .bias = rows % 2 == 0});
    }
  }
}

TEST_F(Linear, MatchesDoubleSumsForOddWidths) {
  for (DType dtype : kWeightTypes) {
    for (std::int64_t rows : {1, 3, 8, 9}) {
      for (std::int64_t in : {1, 3, 65}) {
        for (std::int64_t out : {1, 3, 65}) {
          expect_right({.rows = rows, .out = out, .in = in, .dtype = dtype, .bias = in == 3});
        }
      }
    }
  }
}

TEST_F(Linear, HandlesWidthsBeyondBlocksAndSharedMemory) {
  for (DType dtype : kWeightTypes) {
    expect_right({.rows = 1, .out = 700, .in = 264, .dtype = dtype});
    expect_right({.rows = 8, .out = 300, .in = 264, .dtype = dtype});
    expect_right({.rows = 7, .out = 200, .in = 4864, .dtype = dtype});
    expect_right({.rows = 7, .out = 70, .in = 6600, .dtype = dtype});  // beyond 200 KiB
    expect_right({.rows = 2, .out = 5, .in = 28672, .dtype = dtype});
    expect_right({.rows = 1, .out = 3, .in = 28672, .dtype = dtype, .bias = true});
  }
}

TEST_F(Linear, TakesStridesAndAddressesOfAnyAlignment) {
  for (DType dtype : kWeightTypes) {
    for (std::int64_t rows : {1, 4, 6, 11}) {
      expect_right({.rows = rows,
                    .out = 40,
                    .in = 128,
                    .dtype = dtype,
                    .bias = true,
                    .more_x = 5,
                    .more_y = 3});
      expect_right({.rows = rows,
                    .out = 40,
                    .in = 128,
                    .dtype = dtype,
                    .bias = true,
                    .more_x = 8,
                    .more_y = 8,
                    .x_offset = 1});
      expect_right({.rows = rows, .out = 33, .in = 128, .dtype = dtype, .w_offset = 1});
    }
  }
}

TEST_F(Linear, SumsARowInTheSameOrderAmongFewRows) {
  for (DType dtype : kWeightTypes) {
    for (std::int64_t in : {65, 896, 4864}) {
      const LinearProblem p = {.rows = cuda::kFewRows, .out = 35, .in = in, .dtype = dtype};
      const std::vector<float> all = run(p, p.rows);
      for (std::int64_t rows = 1; rows < p.rows; ++rows) {
        const std::vector<float> some = run(p, rows);
        EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin()))
            << rows << " rows of " << describe(p);
      }
    }
  }
}

TEST_F(Linear, AgreesWithTheCpu) {
  ThreadPool pool(1);
  for (DType dtype : kWeightTypes) {
    for (std::int64_t rows : {1, 8, 20}) {
      const LinearProblem p = {.rows = rows, .out = 50, .in = 896, .dtype = dtype, .bias = true};
      SCOPED_TRACE(describe(p));
      cpu::PackedMatrix packed = cpu::make_packed(p.out, p.in, dtype);
      cpu::pack_rows(packed, 0, test::stored_as(dtype, p.w()).data(), dtype, p.out);
      std::vector<float> expected(rows * p.out);
      const std::vector<float> x = p.x(), b = p.b(), found = run(p, rows);
      cpu::linear(pool, {x.data(), rows, p.in}, packed, b.data(), {expected.data(), rows, p.out});
      const bool rounds = rows > cuda::kFewRows && dtype != DType::kF32;
      const float scale = std::sqrt(static_cast<float>(p.in));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(found[i], expected[i], (rounds ? 2e-2f : 1e-5f) * scale);
      }
    }
  }
}

TEST_F(Linear, NaNAffectsOnlyItsOwnRow) {
  for (std::int64_t rows : {3, 12}) {
    std::vector<float> values = test::random_floats(rows * 65, 5);
    values[65 + 7] = std::numeric_limits<float>::quiet_NaN();
    DeviceArray<float> x(values), w(test::random_floats(4 * 65, 6));
    DeviceArray<float> y(std::vector<float>(rows * 4, kUntouchedOutput));
    cuda::linear(context_, gemm_, {x.data(), rows, 65},
                 {4, 65, DType::kF32, reinterpret_cast<const std::byte*>(w.data())}, nullptr,
                 {y.data(), rows, 4});
    const std::vector<float> found = (context_.synchronize(), y.values());
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(std::isnan(found[i]), i / 4 == 1);
  }
}

TEST_F(Linear, DoesNothingWithoutRows) {
  EXPECT_TRUE(run({.rows = 0, .out = 5, .in = 8}, 0).empty());
}

TEST_F(Linear, BlocksHaveEqualShares) {
  EXPECT_EQ(cuda::equal_shares(1, 396), 1);
  EXPECT_EQ(cuda::equal_shares(396, 396), 396);
  EXPECT_EQ(cuda::equal_shares(397, 396), 199);
  EXPECT_EQ(cuda::equal_shares(1792, 396), 359);  // 5 rounds, of which the last one is full
  for (int pieces = 1; pieces < 200; ++pieces) {
    for (int resident : {1, 4, 12, 33}) {
      const int blocks = cuda::equal_shares(pieces, resident);
      const auto rounds = [&](int of) { return (pieces + of - 1) / of; };
      ASSERT_LE(blocks, resident);
      ASSERT_EQ(rounds(blocks), rounds(resident)) << pieces << " pieces";
    }
  }
}

TEST_F(Linear, MeasuresTheRateOfAProduct) {
  const double rate = cuda::measure_flops(context_, gemm_, 64);
  EXPECT_GT(rate, 1e3);
  EXPECT_LT(rate, 1e18);
}

}  // namespace
}  // namespace turnbench
