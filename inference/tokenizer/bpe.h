#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "inference/tokenizer/flat_map.h"
#include "inference/tokenizer/text_map.h"
#include "inference/tokenizer/vocabulary.h"

namespace turnbench {

/// One way to make a token of two.  Of all merges that a word allows the one with the smallest rank
/// comes first, of several the leftmost.
struct BpeMerge {
  int left, right, result;
  std::uint32_t rank;
};

struct BpeRules {
  bool byte_level = false;     ///< words are bytes; tokens are written in the byte-level alphabet
  bool byte_fallback = false;  ///< an unknown character becomes its bytes' tokens <0x00> to <0xFF>
  bool ignore_merges = false;  ///< a word that is a token is not merged from its parts
  bool fuse_unk = false;       ///< neighbouring unknown characters are one unknown token
  int unk = -1;                ///< the unknown token; without one unknown characters vanish
};

/// A token of a word, and the byte of the word behind it.
struct BpeToken {
  int id;
  std::size_t end;
};

/// A byte pair encoding (Sennrich et al. 2016): its tables, built once and then read by any number
/// of threads.
class Bpe {
 public:
  Bpe() = default;
  /// `vocabulary` is only read here.
  Bpe(const Vocabulary& vocabulary, const std::vector<BpeMerge>& merges, const BpeRules& rules);

 private:
  friend class BpeEncoder;
  struct Merged {
    std::uint32_t rank = 0;
    int id = -1;
  };

  void read_alphabet(const Vocabulary& vocabulary);

  BpeRules rules_;
  FlatMap<Merged> pairs_;                // (left, right) -> the token they make
  std::array<int, 256> byte_ids_{};      // byte-level: a byte's token, or -1
  FlatMap<int> character_ids_;           // else: a character's token
  std::array<int, 256> fallback_ids_{};  // <0x00> to <0xFF>, or -1
  FlatMap<bool> joints_;                 // (c, d): some merge puts c and d side by side
  TextMap<int> words_;                   // for ignore_merges: every token
};

/// The merges that make a token of any two of which it is the concatenation, as SentencePiece and
/// tiktoken merge.  `ranks`, by id, orders them; tokens with the rank kNoRank take no part.
constexpr std::uint32_t kNoRank = ~std::uint32_t{0};
std::vector<BpeMerge> merges_by_concatenation(const Vocabulary& vocabulary,
                                              const std::vector<std::uint32_t>& ranks);

/// Encodes words one after another, remembering those it has seen.  O(n log n) in a word, O(n) in
/// the number of words.  Not to be shared by threads.
class BpeEncoder {
 public:
  explicit BpeEncoder(const Bpe& bpe) : bpe_(bpe) {}

  /// Appends the tokens of `word`.
  void encode(std::string_view word, std::vector<BpeToken>& out);

 private:
  /// A token of the word so far, and what it and the next one would make.
  struct Symbol {
    int id;
    std::uint32_t end, previous, next;
    Bpe::Merged merged;  // of no id if the two do not merge, or if this one was merged away
  };
  /// The tokens of a word seen before, and where its text is kept.
  struct Seen {
    std::uint32_t text = 0, size = 0, begin = 0, end = 0;
  };

  void encode_part(std::string_view part, std::size_t offset, std::vector<BpeToken>& out);
  void read_symbols(std::string_view part);
  void add_symbol(int id, std::size_t end);
  void merge_symbols();
  bool find_merge(std::uint32_t position);
  bool is_known(char32_t c) const { return bpe_.character_ids_.find(c) != nullptr; }

  const Bpe& bpe_;
  std::vector<Symbol> symbols_;
  std::vector<std::uint64_t> candidates_;  // a heap of (rank, position)
  FlatMap<Seen> seen_;                     // by hash
  std::string seen_texts_;
  std::vector<BpeToken> seen_tokens_;
};

}  // namespace turnbench
