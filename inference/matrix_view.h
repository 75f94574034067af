#pragma once

#include <cstdint>
#include <type_traits>

namespace turnbench {

/// A matrix [rows, columns] of somebody else's elements, row by row: row r begins `stride` elements
/// after row r - 1.  What one passes in place of a pointer, a number of rows, a width and a leading
/// dimension; it owns nothing, costs nothing to copy, and looks at no element before it is asked.
/// Sizes are signed and count elements.
template <typename T>
struct MatrixView {
  T* data = nullptr;  ///< null: there is no matrix, nor any part of it
  std::int64_t rows = 0, columns = 0;
  std::int64_t stride = 0;  ///< elements from one row to the next

  constexpr MatrixView() = default;
  /// Rows that lie side by side.
  constexpr MatrixView(T* data, std::int64_t rows, std::int64_t columns)
      : MatrixView(data, rows, columns, columns) {}
  constexpr MatrixView(T* data, std::int64_t rows, std::int64_t columns, std::int64_t stride)
      : data(data), rows(rows), columns(columns), stride(stride) {}

  /// A view of what may change as one of what may not.
  template <typename U>
  requires std::is_same_v<T, const U>
  constexpr MatrixView(const MatrixView<U>& other)
      : MatrixView(other.data, other.rows, other.columns, other.stride) {}

  constexpr T* row(std::int64_t r) const { return data + r * stride; }
  constexpr T& operator()(std::int64_t r, std::int64_t c) const { return data[r * stride + c]; }

  /// Rows [first, first + count).
  constexpr MatrixView rows_at(std::int64_t first, std::int64_t count) const {
    return {data == nullptr ? nullptr : row(first), count, columns, stride};
  }
  /// Columns [first, first + count) of every row.
  constexpr MatrixView columns_at(std::int64_t first, std::int64_t count) const {
    return {data == nullptr ? nullptr : data + first, rows, count, stride};
  }
};

}  // namespace turnbench
