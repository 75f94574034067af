#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "metrics/words.h"

namespace turnbench {

/// Length of the longest common subsequence of two sequences of ids in [0, vocabulary).
/// Bit-parallel: O(|a| |b| / 64) time, O(|a| + |b| + vocabulary) memory.
std::size_t lcs_length(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b,
                       std::size_t vocabulary);

/// The LCS tables of one sequence (rows) against several sequences at once (columns, side by side).
/// A table is stored as bits: neighbouring cells of a row differ by 0 or 1, and each row is
/// computed from the one above by an addition (Hyyro, "Bit-parallel LCS-length computation
/// revisited", 2004).  A dead bit after each column sequence stops the carry.
class LcsTable {
 public:
  /// `columns` must outlive the table; its ids are in [0, vocabulary).
  LcsTable(const WordSequences& columns, std::size_t vocabulary);

  /// Computes the tables for `rows` in O(|rows| |columns| / 64) and stores the last `keep` rows.
  void compute(std::span<const std::uint32_t> rows, std::size_t keep);

  /// LCS length of the row sequence and column sequence `k`.
  std::size_t length(std::size_t k) const;

  /// Backtracks from the end of both sequences to the start of one.  Equal words are matched;
  /// otherwise it goes one row up if the cell above is larger than the cell to the left, else one
  /// column to the left.  Marks the matched columns in `matched` (indices into `columns.words`).
  /// Returns the number of steps, and stops when it exceeds `max_steps`.  `max_steps` must not
  /// exceed the number of stored rows, unless all rows are stored.
  std::size_t backtrack(std::size_t k, std::size_t max_steps, std::vector<bool>& matched) const;

 private:
  /// Column c of sequence k is bit c + k.
  bool grows_at(std::size_t row, std::size_t bit) const {
    const std::uint64_t word = kept_[(row - first_kept_) * row_words_ + bit / 64];
    return (word >> (bit % 64) & 1) == 0;
  }
  std::span<const std::size_t> places_of(std::size_t word) const;
  void next_row(std::uint32_t word);
  void next_row(const std::uint64_t* match);
  /// True if all cells of the table of sequence `k` are zero.
  bool is_zero(std::size_t k) const;

  const WordSequences& columns_;
  std::size_t row_words_;
  std::vector<std::size_t> places_begin_, places_;  // for each word, the bits at its occurrences
  std::vector<std::size_t> mask_of_;  // for each word, its index in masks_, or kNoMask
  std::vector<std::uint64_t> masks_;  // rows of bits of the frequent words
  std::vector<std::uint64_t> live_;   // 0 at the dead bits
  std::vector<std::uint64_t> row_, match_;
  std::span<const std::uint32_t> rows_;
  std::vector<std::uint64_t> kept_;
  std::size_t first_kept_ = 0;
};

}  // namespace turnbench
