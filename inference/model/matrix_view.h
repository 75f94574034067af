#pragma once

#include <cstdint>
#include <type_traits>

namespace turnbench {

/// A non-owning view of a row-major matrix [rows, columns]: row r begins `stride` elements after
/// row r - 1.  It replaces a pointer, a number of rows, a width and a leading dimension as
/// arguments.  The elements may be in device memory: making a view and taking parts of it does not
/// access them.  Sizes are signed and count elements.
template <typename T>
struct MatrixView {
  T* data = nullptr;  ///< null: no matrix; parts of it are null too
  std::int64_t rows = 0, columns = 0;
  std::int64_t stride = 0;  ///< elements from one row to the next

  constexpr MatrixView() = default;
  /// A matrix without gaps between its rows.
  constexpr MatrixView(T* data, std::int64_t rows, std::int64_t columns)
      : MatrixView(data, rows, columns, columns) {}
  constexpr MatrixView(T* data, std::int64_t rows, std::int64_t columns, std::int64_t stride)
      : data(data), rows(rows), columns(columns), stride(stride) {}

  /// A view of mutable elements converts to one of const elements.
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
