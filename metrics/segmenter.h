#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace turnbench {

/// The hidden Markov model that jieba segments unknown words with: log probabilities of the states
/// begin, end, middle, single (B, E, M, S: the order in which ties are broken).
struct SegmenterModel {
  using States = std::array<double, 4>;

  States start{};
  std::array<States, 4> transition{};  ///< [from][to]
  std::unordered_map<char32_t, States> emission;

  /// Reads `prob_start.py`, `prob_trans.py` and `prob_emit.py` of jieba's folder `finalseg`.
  static SegmenterModel read(const std::filesystem::path& folder);

  /// Where the words of a run of unknown words end, the last being `text.size()`: Viterbi's most
  /// probable states, cut behind each end and single; O(length).
  std::vector<std::size_t> word_ends(std::u32string_view text) const;
};

/// Word segmentation of Chinese text exactly as `jieba.cut(text, cut_all=False)` of jieba 0.42.1
/// does it, with its HMM.
class Segmenter {
 public:
  /// Reads `dict.txt` and `finalseg/` from a folder of jieba's Python package.
  static Segmenter from_jieba(const std::filesystem::path& package);

  /// The words of `text` in order; together they are `text`.  O(length x longest word's length).
  std::vector<std::string_view> cut(std::string_view text) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  struct Text;

  void cut_block(const Text& text, std::size_t begin, std::size_t end,
                 std::vector<std::string_view>& out) const;
  void cut_unknown(const Text& text, std::size_t begin, std::size_t end,
                   std::vector<std::string_view>& out) const;
  std::vector<std::size_t> best_ends(const Text& text, std::size_t begin, std::size_t end) const;
  /// The frequency of a word; 0 for a mere beginning of words, -1 for anything else.
  std::int64_t frequency(std::string_view word) const;

  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> frequencies_;
  std::int64_t total_ = 0;
  SegmenterModel model_;
};

}  // namespace turnbench
