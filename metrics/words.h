#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace turnbench {

/// Assigns ids to words, from 0 in the order of their first use, so that texts can be compared as
/// integers.  The text of the words must outlive it.
class WordIds {
 public:
  std::uint32_t id(std::string_view word);
  /// The ids of several words.
  std::vector<std::uint32_t> ids(std::span<const std::string_view> words);
  std::size_t size() const { return ids_.size(); }

 private:
  std::unordered_map<std::string_view, std::uint32_t> ids_;
};

/// Sequences of word ids, stored one after the other.
struct WordSequences {
  std::vector<std::uint32_t> words;
  std::vector<std::size_t> ends;  ///< ends[k]: index after the last word of sequence k

  std::size_t size() const { return ends.size(); }
  std::size_t begin(std::size_t k) const { return k == 0 ? 0 : ends[k - 1]; }
  std::span<const std::uint32_t> operator[](std::size_t k) const {
    return std::span(words).subspan(begin(k), ends[k] - begin(k));
  }
};

/// F1 over two multisets of tokens, 2pr / (p + r); 0 if they have no token in common.
double token_f1(std::span<const std::string_view> prediction,
                std::span<const std::string_view> reference);

/// @throws Error (input) if a comparison quadratic in the lengths (in `unit`s) of the texts would
/// need more than `limit` cells.
void check_comparison_size(std::size_t prediction, std::size_t reference, std::string_view unit,
                           std::size_t limit);

}  // namespace turnbench
