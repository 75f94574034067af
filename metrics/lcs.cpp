#include "metrics/lcs.h"

#include <algorithm>
#include <limits>

namespace turnbench {
namespace {

constexpr std::size_t kNoMask = std::numeric_limits<std::size_t>::max();

void set_bit(std::uint64_t* bits, std::size_t bit) {
  bits[bit / 64] |= std::uint64_t{1} << (bit % 64);
}

}  // namespace

LcsTable::LcsTable(const WordSequences& columns, std::size_t vocabulary)
    : columns_(columns),
      row_words_((columns.words.size() + columns.size() + 63) / 64),
      places_begin_(vocabulary + 1),
      places_(columns.words.size()),
      mask_of_(vocabulary, kNoMask),
      live_(row_words_, ~std::uint64_t{0}),
      match_(row_words_) {
  for (std::uint32_t word : columns.words) ++places_begin_[word];
  std::size_t sum = 0;
  for (std::size_t& begin : places_begin_) begin = sum += begin;
  for (std::size_t k = columns.size(); k-- > 0;) {
    const std::size_t end = columns.ends[k];
    live_[(end + k) / 64] &= ~(std::uint64_t{1} << ((end + k) % 64));
    for (std::size_t c = end; c-- > columns.begin(k);) {
      places_[--places_begin_[columns.words[c]]] = c + k;
    }
  }
  // For a word with more places than a row has machine words, the bits are precomputed (there are
  // at most 64 such words); for the others they are set for each row.
  for (std::size_t word = 0; word < vocabulary; ++word) {
    if (places_of(word).size() <= row_words_) continue;
    mask_of_[word] = masks_.size();
    masks_.resize(masks_.size() + row_words_);
    for (std::size_t bit : places_of(word)) set_bit(&masks_[mask_of_[word]], bit);
  }
}

std::span<const std::size_t> LcsTable::places_of(std::size_t word) const {
  return std::span(places_).subspan(places_begin_[word],
                                    places_begin_[word + 1] - places_begin_[word]);
}

void LcsTable::next_row(std::uint32_t word) {
  if (mask_of_[word] != kNoMask) return next_row(&masks_[mask_of_[word]]);
  for (std::size_t bit : places_of(word)) set_bit(match_.data(), bit);
  next_row(match_.data());
  for (std::size_t bit : places_of(word)) match_[bit / 64] = 0;
}

void LcsTable::next_row(const std::uint64_t* match) {
  std::uint64_t carry = 0;
  for (std::size_t w = 0; w < row_words_; ++w) {
    const std::uint64_t v = row_[w], hits = v & match[w];
    const std::uint64_t sum = v + hits;
    const std::uint64_t total = sum + carry;
    carry = static_cast<std::uint64_t>(sum < v) | static_cast<std::uint64_t>(total < sum);
    row_[w] = (total | (v ^ hits)) & live_[w];
  }
}

void LcsTable::compute(std::span<const std::uint32_t> rows, std::size_t keep) {
  rows_ = rows;
  row_ = live_;
  first_kept_ = rows.size() - std::min(keep, rows.size());
  kept_.resize((rows.size() - first_kept_) * row_words_);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    next_row(rows[i]);
    if (i >= first_kept_) {
      std::copy(row_.begin(), row_.end(), kept_.begin() + (i - first_kept_) * row_words_);
    }
  }
}

std::size_t LcsTable::length(std::size_t k) const {
  std::size_t length = 0;
  for (std::size_t bit = columns_.begin(k) + k; bit < columns_.ends[k] + k; ++bit) {
    length += (row_[bit / 64] >> (bit % 64) & 1) == 0;
  }
  return length;
}

bool LcsTable::is_zero(std::size_t k) const {
  const std::size_t begin = columns_.begin(k) + k, end = columns_.ends[k] + k;
  for (std::size_t w = begin / 64; w * 64 < end; ++w) {
    std::uint64_t grown = live_[w] & ~row_[w];
    if (w == begin / 64) grown &= ~std::uint64_t{0} << (begin % 64);
    if (w == end / 64) grown &= (std::uint64_t{1} << (end % 64)) - 1;
    if (grown != 0) return false;
  }
  return true;
}

std::size_t LcsTable::backtrack(std::size_t k, std::size_t max_steps,
                                std::vector<bool>& matched) const {
  if (is_zero(k) && !rows_.empty()) {  // go directly to the left end
    return columns_.ends[k] - columns_.begin(k);
  }
  std::size_t i = rows_.size(), j = columns_.ends[k], steps = 0;
  while (i > 0 && j > columns_.begin(k)) {
    if (++steps > max_steps) break;
    if (rows_[i - 1] == columns_.words[j - 1]) {
      matched[j - 1] = true;
      --i, --j;
    } else if (grows_at(i - 1, j - 1 + k)) {
      // The cell to the left is smaller than this one, so the cell above equals this one.
      --i;
    } else {
      --j;
    }
  }
  return steps;
}

std::size_t lcs_length(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b,
                       std::size_t vocabulary) {
  const std::span<const std::uint32_t> shorter = a.size() < b.size() ? a : b;
  const std::span<const std::uint32_t> longer = a.size() < b.size() ? b : a;
  const WordSequences columns{{shorter.begin(), shorter.end()}, {shorter.size()}};
  LcsTable table(columns, vocabulary);
  table.compute(longer, 0);
  return table.length(0);
}

}  // namespace turnbench
