#include "inference/model/matrix_view.h"

#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

namespace turnbench {
namespace {

static_assert(std::is_trivially_copyable_v<MatrixView<float>>);
static_assert(std::is_convertible_v<MatrixView<float>, MatrixView<const float>>);
static_assert(!std::is_convertible_v<MatrixView<const float>, MatrixView<float>>);

/// [4, 5], element (r, c) = 10 r + c.
std::vector<int> numbers() {
  std::vector<int> out;
  for (int r = 0; r < 4; ++r) {
    for (int c = 0; c < 5; ++c) out.push_back(10 * r + c);
  }
  return out;
}

TEST(MatrixView, PartsKeepTheStride) {
  std::vector<int> data = numbers();
  const MatrixView all(data.data(), 4, 5);
  EXPECT_EQ(all(3, 4), 34);
  const MatrixView<const int> part = all.rows_at(1, 3).columns_at(2, 2);
  EXPECT_EQ(part.rows, 3);
  EXPECT_EQ(part.columns, 2);
  EXPECT_EQ(part.stride, 5);
  EXPECT_EQ(part(0, 0), 12);
  EXPECT_EQ(part(2, 1), 33);
  EXPECT_EQ(part.row(1), data.data() + 12);
  all.columns_at(2, 2)(1, 0) = -1;
  EXPECT_EQ(part(0, 0), -1);
}

TEST(MatrixView, RowsMayHaveGaps) {
  std::vector<int> data = numbers();
  const MatrixView apart(data.data(), 2, 3, 10);
  EXPECT_EQ(apart(1, 2), 22);
  EXPECT_EQ(apart.rows_at(1, 1)(0, 0), 20);
}

// Optional data is a null view, whose parts can be taken like those of any other view.
TEST(MatrixView, PartsOfEmptyViewsAreEmpty) {
  const MatrixView<float> none;
  EXPECT_EQ(none.rows_at(3, 2).columns_at(4, 1).data, nullptr);
  EXPECT_EQ(MatrixView<float>(nullptr, 7, 8).rows_at(3, 2).data, nullptr);
}

}  // namespace
}  // namespace turnbench
