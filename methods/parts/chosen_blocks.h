#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace turnbench {

/// The key blocks that each row block of a pass computes: [row blocks][key blocks].
class ChosenBlocks {
 public:
  /// blocks: number of key blocks; first: the one on the first row block's diagonal.
  ChosenBlocks(int first, int blocks) : first_(first), blocks_(blocks) {
    chosen_.resize(index(blocks, 0));
  }

  /// Adds key block `column` to all row blocks that see it.
  void add_column(int column) {
    for (int r = std::max(column, first_); r < blocks_; ++r) add(r, column);
  }
  /// Adds the key blocks `offset` blocks before the diagonal.
  void add_diagonal(int offset) {
    for (int r = std::max(offset, first_); r < blocks_; ++r) add(r, r - offset);
  }
  /// Adds one cell.  Row blocks are numbered like key blocks.
  void add(int row, int column) { chosen_[index(row, column)] = 1; }

  /// Ascending key blocks of each row block.
  std::vector<std::vector<std::int32_t>> lists() const {
    std::vector<std::vector<std::int32_t>> out;
    for (int r = first_; r < blocks_; ++r) {
      out.emplace_back();
      for (int c = 0; c <= r; ++c) {
        if (chosen_[index(r, c)]) out.back().push_back(c);
      }
    }
    return out;
  }

 private:
  std::size_t index(int row, int column) const {
    return static_cast<std::size_t>(row - first_) * static_cast<std::size_t>(blocks_) +
           static_cast<std::size_t>(column);
  }
  int first_, blocks_;
  std::vector<char> chosen_;
};

}  // namespace turnbench
