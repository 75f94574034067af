#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace turnbench {

/// The hidden Markov model with which jieba segments unknown words: log probabilities of the states
/// begin, end, middle, single (B, E, M, S; ties are broken in this order).
struct SegmenterModel {
  using States = std::array<double, 4>;

  States start{};
  std::array<States, 4> transition{};  ///< [from][to]
  std::unordered_map<char32_t, States> emission;

  /// Reads `prob_start.py`, `prob_trans.py` and `prob_emit.py` from jieba's folder `finalseg`.
  /// @throws Error (input) if a file is missing or malformed.
  static SegmenterModel read(const std::filesystem::path& folder);

  /// Segments a run of unknown words: the end of each word, the last one being `text.size()`. Takes
  /// the most probable states (Viterbi) and cuts after each end and single; O(length).
  std::vector<std::size_t> word_ends(std::u32string_view text) const;
};

/// Word segmentation of Chinese text, exactly as `jieba.cut(text, cut_all=False)` of jieba 0.42.1,
/// including its HMM.  Thread-safe: `cut` only reads.
class Segmenter {
 public:
  /// Reads `dict.txt` and `finalseg/` from the folder of the Python package jieba.
  /// @throws Error (input) if a file is missing or malformed.
  static Segmenter from_jieba(const std::filesystem::path& package);

  /// The words of `text` in order, as views into it; concatenated they are `text`.  O(length x
  /// length of the longest word).
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
  /// The frequency of a word; 0 for a prefix of words, -1 for anything else.
  std::int64_t frequency(std::string_view word) const;

  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> frequencies_;
  std::int64_t total_ = 0;
  SegmenterModel model_;
};

}  // namespace turnbench
