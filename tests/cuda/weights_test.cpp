// Weights that are copied to a backend's matrix, in any pieces and from any type, and used at once.

#include <gtest/gtest.h>

#include "inference/cuda/cuda_backend.h"
#include "tests/cuda/device_array.h"
#include "tests/inference/reference.h"

namespace turnbench {
namespace {

using test::rounded_to;
using test::stored_as;

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

class PutRows : public testing::TestWithParam<std::tuple<DType, DType>> {
 protected:
  DType from() const { return std::get<0>(GetParam()); }
  DType to() const { return std::get<1>(GetParam()); }

  /// Copies `rows` rows of values, `at_once` at a time, from an odd address that is overwritten
  /// right after each call.
  void put(WeightMatrix& matrix, const std::vector<float>& values, std::size_t rows,
           std::size_t at_once) const {
    const std::size_t width = matrix.in(), row_bytes = width * size_of(from());
    const std::vector<std::byte> source = stored_as(from(), values);
    std::vector<std::byte> block(1 + at_once * row_bytes);
    for (std::size_t first = 0; first < rows; first += at_once) {
      const std::size_t count = std::min(at_once, rows - first);
      std::copy_n(&source[first * row_bytes], count * row_bytes, block.data() + 1);
      matrix.set_rows(first, block.data() + 1, from(), count);
      std::fill(block.begin(), block.end(), std::byte{0xFF});
    }
  }
  std::vector<float> stored(const std::vector<float>& values) const {
    return rounded_to(to(), rounded_to(from(), values));
  }

  std::unique_ptr<Backend> backend_ = cuda::make_backend(0, 1);
};

TEST_P(PutRows, AreUsedWithoutWaiting) {
  constexpr std::size_t kOut = 45, kIn = 33;
  const std::vector<float> values = test::random_floats(kOut * kIn, 1), weights = stored(values),
                           x = test::random_floats(kIn, 2);
  for (std::size_t at_once : {1, 7, 45}) {
    test::in_every_order([&] {
      const std::unique_ptr<WeightMatrix> matrix =
          backend_->make_matrix(kOut, kIn, to(), Math::kF32);
      const std::shared_ptr<Memory>& memory = backend_->memory();
      const WeightVector input(x, memory);
      Buffer out(kOut * sizeof(float), memory), again(kOut * sizeof(float), memory);
      const auto multiply = [&](Buffer& y) {
        backend_->linear({input.data(), 1, kIn}, *matrix, nullptr, {y.as<float>(), 1, kOut});
      };
      put(*matrix, values, kOut, at_once);
      multiply(out);
      put(*matrix, std::vector<float>(kOut * kIn), kOut, at_once);  // the product still uses them
      multiply(again);
      std::vector<float> first(kOut), second(kOut);
      memory->copy_floats(out.as<float>(), first.data(), kOut);
      memory->copy_floats(again.as<float>(), second.data(), kOut);
      for (std::size_t o = 0; o < kOut; ++o) {
        double sum = 0;
        for (std::size_t i = 0; i < kIn; ++i)
          sum += static_cast<double>(x[i]) * weights[o * kIn + i];
        EXPECT_NEAR(first[o], sum, 1e-5) << o;
        EXPECT_EQ(second[o], 0) << o;
      }
    });
  }
}

class PutManyRows : public PutRows {};

/// More rows than the buffers hold, and rows that cross the borders of buffers.
TEST_P(PutManyRows, ArriveThroughAllBuffers) {
  constexpr std::size_t kIn = 1'000'003;
  const std::size_t rows = (std::size_t{40} << 20) / (kIn * size_of(to()));
  std::vector<float> values(rows * kIn);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i * 2654435761u % 65521) / 65521 - 0.5f;
  const std::vector<float> expected = stored(values);
  const std::unique_ptr<WeightMatrix> matrix = backend_->make_matrix(rows, kIn, to(), Math::kF32);
  put(*matrix, values, rows, rows);
  std::vector<float> row(kIn);
  for (std::size_t r = 0; r < rows; ++r) {
    matrix->read_row(r, row.data());
    EXPECT_TRUE(std::equal(row.begin(), row.end(), &expected[r * kIn])) << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, PutRows,
                         testing::Combine(testing::ValuesIn(kTypes), testing::ValuesIn(kTypes)));
INSTANTIATE_TEST_SUITE_P(Types, PutManyRows,
                         testing::Values(std::tuple(DType::kBF16, DType::kBF16),
                                         std::tuple(DType::kF32, DType::kBF16),
                                         std::tuple(DType::kF16, DType::kF32)));

}  // namespace
}  // namespace turnbench
