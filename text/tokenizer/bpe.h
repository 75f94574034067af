#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/flat_map.h"
#include "text/tokenizer/text_map.h"
#include "text/tokenizer/vocabulary.h"

namespace turnbench {

/// A merge of two tokens into one.  In a word, the possible merge with the smallest rank is applied
/// first; of several with this rank, the leftmost.
struct BpeMerge {
  int left, right, result;
  std::uint32_t rank;
};

struct BpeRules {
  bool byte_level = false;     ///< words are bytes; tokens are in the byte-level alphabet
  bool byte_fallback = false;  ///< unknown characters become their bytes' tokens <0x00> to <0xFF>
  bool ignore_merges = false;  ///< a word in the vocabulary becomes its token, without merges
  bool fuse_unk = false;       ///< adjacent unknown characters become one unknown token
  int unk = -1;                ///< id of the unknown token; -1: unknown characters are dropped
};

/// A token of a word, and the offset of its end in the word, in bytes.
struct BpeToken {
  int id;
  std::size_t end;
};

/// The tables of a byte pair encoding (Sennrich et al., "Neural Machine Translation of Rare Words
/// with Subword Units", 2016).  Immutable; threads may share it.
class Bpe {
 public:
  Bpe() = default;
  /// `vocabulary` is only needed during construction.
  Bpe(const Vocabulary& vocabulary, const std::vector<BpeMerge>& merges, const BpeRules& rules);

 private:
  friend class BpeEncoder;
  struct Merged {
    std::uint32_t rank = 0;
    int id = -1;
  };

  void read_alphabet(const Vocabulary& vocabulary);

  BpeRules rules_;
  FlatMap<Merged> pairs_;                // (left, right) -> the merged token
  std::array<int, 256> byte_ids_{};      // byte-level: a byte's token, or -1
  FlatMap<int> character_ids_;           // not byte-level: a character's token
  std::array<int, 256> fallback_ids_{};  // <0x00> to <0xFF>, or -1
  FlatMap<bool> joints_;                 // (c, d): c and d are adjacent in some merged token
  TextMap<int> words_;                   // for ignore_merges: text -> token
};

/// Generates merges for vocabularies without a list of merges (SentencePiece, tiktoken): any two
/// tokens whose concatenation is a token merge. ranks: rank of the resulting token, by id; tokens
/// with kNoRank are never the result of a merge.
constexpr std::uint32_t kNoRank = ~std::uint32_t{0};
std::vector<BpeMerge> merges_by_concatenation(const Vocabulary& vocabulary,
                                              const std::vector<std::uint32_t>& ranks);

/// Encodes words and caches the results, those of earlier texts too.  O(n log n) in the length of a
/// word.  Threads must not share it.
class BpeEncoder {
 public:
  explicit BpeEncoder(const Bpe& bpe) : bpe_(bpe) {}

  /// Appends the tokens of `word`.
  void encode(std::string_view word, std::vector<BpeToken>& out);

 private:
  /// A token of the word so far, and its merge with the next one.
  struct Symbol {
    int id;
    std::uint32_t end, previous, next;
    Bpe::Merged merged;  // id -1 if they do not merge, or if this symbol has been merged
  };
  /// A cached word: ranges of its text in seen_texts_ and of its tokens in seen_tokens_.
  struct Seen {
    std::uint32_t text = 0, size = 0, begin = 0, end = 0;
  };

  void encode_part(std::string_view part, std::size_t offset, std::vector<BpeToken>& out);
  void limit_cache();
  void read_symbols(std::string_view part);
  void add_symbol(int id, std::size_t end);
  void merge_symbols();
  bool find_merge(std::uint32_t position);
  bool is_known(char32_t c) const { return bpe_.character_ids_.find(c) != nullptr; }

  const Bpe& bpe_;
  std::vector<Symbol> symbols_;
  std::vector<std::uint64_t> candidates_;  // a heap of (rank, position)
  FlatMap<Seen> seen_;                     // by hash of the word
  std::string seen_texts_;
  std::vector<BpeToken> seen_tokens_;
};

/// Encoders for any number of threads, each for one thread at a time.  Thread-safe.
class BpeEncoders {
 public:
  explicit BpeEncoders(const Bpe& bpe) : bpe_(bpe) {}

  std::unique_ptr<BpeEncoder> take();
  void give_back(std::unique_ptr<BpeEncoder> encoder);

 private:
  const Bpe& bpe_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<BpeEncoder>> free_;
};

}  // namespace turnbench
