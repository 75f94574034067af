#include "inference/cuda/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "inference/cpu/elementwise.h"
#include "tests/cuda/device_array.h"
#include "tests/inference/reference.h"

namespace turnbench {
namespace {

using test::DeviceArray;
using test::random_floats;

constexpr float kUntouched = -77;
constexpr std::size_t kWidths[] = {1, 3, 65, 896, 4864};
/// Elements by which strides exceed widths, and by which addresses are unaligned.
struct Layout {
  std::size_t more, offset;
};
constexpr Layout kLayouts[] = {{0, 0}, {4, 0}, {3, 0}, {4, 1}};

class Elementwise : public testing::Test {
 protected:
  cuda::Context context_{0};
};

TEST_F(Elementwise, NormalizesRows) {
  constexpr std::size_t kRows = 5;
  constexpr float kEps = 1e-5f;
  for (std::size_t width : kWidths) {
    const std::vector<float> weight = random_floats(width, 2), x = random_floats(kRows * width, 1);
    std::vector<float> before;
    for (const Layout& l : kLayouts) {
      SCOPED_TRACE(fmt::format("width {}, stride +{}, offset {}", width, l.more, l.offset));
      const std::size_t ld = width + l.more;
      std::vector<float> spread(kRows * ld, kUntouched);
      for (std::size_t r = 0; r < kRows; ++r) std::copy_n(&x[r * width], width, &spread[r * ld]);
      DeviceArray<float> w(weight, l.offset);
      const std::vector<float> found = test::in_every_order([&] {
        DeviceArray<float> in(spread, l.offset);
        DeviceArray<float> out(std::vector<float>(spread.size(), kUntouched), l.offset);
        const MatrixView x(in.data(), kRows, width, ld), y(out.data(), kRows, width, ld);
        cuda::rms_norm(context_, x, w.data(), kEps, y);
        cuda::rms_norm(context_, x, w.data(), kEps, x);
        context_.synchronize();
        EXPECT_TRUE(test::same_bits(in.values(), out.values())) << "differs in place";
        return out.values();
      });
      std::vector<float> dense, cpu(kRows * width);
      cpu::rms_norm(MatrixView(x.data(), kRows, width), weight.data(), kEps,
                    MatrixView(cpu.data(), kRows, width));
      for (std::size_t r = 0; r < kRows; ++r) {
        double squares = 0;
        for (std::size_t i = 0; i < width; ++i)
          squares += static_cast<double>(x[r * width + i]) * x[r * width + i];
        const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + kEps);
        for (std::size_t i = 0; i < ld; ++i) {
          const float value = found[r * ld + i];
          if (i >= width) {
            ASSERT_EQ(value, kUntouched);
            continue;
          }
          const double expected = x[r * width + i] * scale * weight[i];
          ASSERT_NEAR(value, expected, 1e-6 * std::abs(expected) + 1e-9);
          ASSERT_NEAR(value, cpu[r * width + i], 2e-6 * std::abs(expected) + 1e-9);
          dense.push_back(value);
        }
      }
      EXPECT_TRUE(before.empty() || test::same_bits(before, dense)) << "depends on the alignment";
      before = dense;
    }
  }
}

TEST_F(Elementwise, NormalizesEachHead) {
  constexpr std::size_t kRows = 3;
  constexpr float kEps = 1e-5f;
  for (int head_dim : {2, 6, 64, 128, 256}) {
    for (const std::pair<int, int>& of : {std::pair{1, 1}, {7, 2}, {9, 0}}) {
      const int heads = of.first, others = of.second;
      for (const Layout& l : kLayouts) {
        SCOPED_TRACE(fmt::format("{} + {} heads of {}, stride +{}, offset {}", heads, others,
                                 head_dim, l.more, l.offset));
        const std::size_t dim = head_dim, width = dim * (heads + others), ld = width + l.more;
        const std::vector<float> x = random_floats(kRows * ld, 1);
        DeviceArray<float> w(random_floats(dim, 2), l.offset), other(random_floats(dim, 3));
        const std::vector<float> found = test::in_every_order([&] {
          DeviceArray<float> in(x, l.offset);
          cuda::rms_norm_heads(context_, MatrixView(in.data(), kRows, width, ld), head_dim, heads,
                               w.data(), other.data(), kEps);
          return in.values();
        });
        // One head after the other.
        DeviceArray<float> in(x, l.offset);
        for (int h = 0; h < heads + others; ++h) {
          const MatrixView head(in.data() + h * head_dim, kRows, dim, ld);
          cuda::rms_norm(context_, head, (h < heads ? w : other).data(), kEps, head);
        }
        const std::vector<float> expected = in.values();
        for (std::size_t i = 0; i < found.size(); ++i) {
          const double tolerance = head_dim <= 128 ? 0 : 1e-6 * std::abs(expected[i]);
          ASSERT_NEAR(found[i], expected[i], tolerance) << i;
        }
      }
    }
  }
}

TEST_F(Elementwise, RotatesHeads) {
  constexpr std::size_t kRows = 3;
  for (int head_dim : {2, 6, 16, 64, 128, 256}) {
    for (int heads : {1, 7, 9}) {
      SCOPED_TRACE(fmt::format("{} heads of {}", heads, head_dim));
      const std::size_t half = static_cast<std::size_t>(head_dim / 2);
      const std::size_t width = half * 2 * static_cast<std::size_t>(heads), ld = width + 5;
      const std::vector<float> angles = random_floats(kRows * half, 1);
      std::vector<float> cos, sin;
      for (float a : angles) {
        cos.push_back(std::cos(a));
        sin.push_back(std::sin(a));
      }
      const std::vector<float> x = random_floats(kRows * ld, 2);
      DeviceArray<float> c(cos), s(sin);
      const std::vector<float> found = test::in_every_order([&] {
        DeviceArray<float> in(x);
        cuda::apply_rope(context_, MatrixView(in.data(), kRows, width, ld),
                         MatrixView(c.data(), kRows, half), MatrixView(s.data(), kRows, half));
        return in.values();
      });
      for (std::size_t i = 0; i < found.size(); ++i) {
        const std::size_t row = i / ld, column = i % ld, d = column % (2 * half), pair = d % half;
        double expected = x[i];
        if (column < width) {
          const std::size_t first = i - d + pair;
          const double a = x[first], b = x[first + half];
          const double cosine = cos[row * half + pair], sine = sin[row * half + pair];
          expected = d < half ? a * cosine - b * sine : b * cosine + a * sine;
        }
        ASSERT_NEAR(found[i], expected, column < width ? 1e-6 * 4 : 0) << i;
      }
    }
  }
}

TEST_F(Elementwise, MultipliesBySilu) {
  constexpr std::size_t kRows = 3;
  for (std::size_t width : kWidths) {
    for (std::size_t offset : {0, 1}) {
      SCOPED_TRACE(fmt::format("width {}, offset {}", width, offset));
      std::vector<float> gate_up = random_floats(kRows * 2 * width, 1, 10);
      gate_up[0] = -200;  // whose sigmoid is 0 in float
      gate_up[2 * width] = 200;
      DeviceArray<float> in(gate_up, offset);
      const std::vector<float> found = test::in_every_order([&] {
        DeviceArray<float> out(std::vector<float>(kRows * width, kUntouched), offset);
        cuda::silu_multiply(context_, MatrixView(in.data(), kRows, 2 * width),
                            MatrixView(out.data(), kRows, width));
        return out.values();
      });
      std::vector<float> cpu(width);
      for (std::size_t r = 0; r < kRows; ++r) {
        const float *gate = &gate_up[r * 2 * width], *up = gate + width;
        cpu::silu_multiply(MatrixView(gate, 1, 2 * width), MatrixView(cpu.data(), 1, width));
        for (std::size_t i = 0; i < width; ++i) {
          const double expected = gate[i] / (1 + std::exp(-static_cast<double>(gate[i]))) * up[i];
          ASSERT_NEAR(found[r * width + i], expected, 1e-6 * std::abs(expected) + 1e-30);
          ASSERT_NEAR(found[r * width + i], cpu[i], 2e-6 * std::abs(expected) + 1e-30);
        }
      }
    }
  }
}

TEST_F(Elementwise, Adds) {
  for (std::size_t n : {0, 1, 3, 4, 7, 1023, 1024, 5001}) {
    for (std::size_t offset : {0, 1}) {
      const std::vector<float> x = random_floats(n, 1), y = random_floats(n, 2);
      DeviceArray<float> more(y, offset);
      const std::vector<float> found = test::in_every_order([&] {
        DeviceArray<float> sum(x);
        cuda::add(context_, sum.data(), more.data(), n);
        return sum.values();
      });
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(found[i], x[i] + y[i]);
    }
  }
}

TEST_F(Elementwise, CopiesRows) {
  constexpr std::size_t kRows = 4, kFrom = 70, kTo = 66;
  const std::vector<float> values = random_floats(kRows * kFrom, 1);
  for (std::size_t width : {0, 1, 65}) {
    for (std::size_t rows : {std::size_t{0}, std::size_t{1}, kRows}) {
      DeviceArray<float> from(values), to(std::vector<float>(kRows * kTo, kUntouched));
      cuda::copy_rows(context_, MatrixView(from.data(), rows, width, kFrom),
                      MatrixView(to.data(), rows, width, kTo));
      const std::vector<float> found = to.values();
      for (std::size_t i = 0; i < found.size(); ++i) {
        const std::size_t r = i / kTo, column = i % kTo;
        const bool copied = r < rows && column < width;
        ASSERT_EQ(found[i], copied ? values[r * kFrom + column] : kUntouched);
      }
    }
  }
}

TEST_F(Elementwise, EmbedsTokens) {
  constexpr std::size_t kTokens = 11;
  const std::vector<int> tokens = {10, 0, 3, 3, 9};
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (std::size_t width : kWidths) {
      SCOPED_TRACE(fmt::format("{}, width {}", name_of(dtype), width));
      const std::vector<float> values =
          test::rounded_to(dtype, random_floats(kTokens * width, width));
      DeviceArray<std::byte> table(test::stored_as(dtype, values));
      const std::vector<float> found = test::in_every_order([&] {
        DeviceArray<float> out(std::vector<float>(tokens.size() * width, kUntouched));
        cuda::embed(context_, {kTokens, static_cast<std::int64_t>(width), dtype, table.data()},
                    tokens, out.data());
        return out.values();
      });
      for (std::size_t i = 0; i < found.size(); ++i) {
        const auto token = static_cast<std::size_t>(tokens[i / width]);
        ASSERT_EQ(found[i], values[token * width + i % width]);
      }
    }
  }
}

TEST_F(Elementwise, DoesNothingWithoutRows) {
  DeviceArray<float> x(random_floats(8, 1));
  const MatrixView none(x.data(), 0, 8);
  cuda::rms_norm(context_, none, x.data(), 1e-5f, none);
  cuda::rms_norm_heads(context_, none, 4, 1, x.data(), x.data(), 1e-5f);
  cuda::apply_rope(context_, none, none.columns_at(0, 4), none.columns_at(0, 4));
  cuda::silu_multiply(context_, none, none.columns_at(0, 4));
  cuda::embed(context_, {1, 8, DType::kF32, nullptr}, {}, x.data());
  EXPECT_TRUE(test::same_bits(x.values(), random_floats(8, 1)));
}

}  // namespace
}  // namespace turnbench
