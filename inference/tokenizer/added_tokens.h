#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/json.h"
#include "inference/tokenizer/flat_map.h"
#include "inference/tokenizer/normalizer.h"
#include "inference/tokenizer/text_map.h"
#include "inference/tokenizer/traced_text.h"
#include "inference/tokenizer/unicode_regex.h"
#include "inference/tokenizer/vocabulary.h"

namespace turnbench {

/// A token that is looked for in the text as it stands, before the model sees it.
struct AddedToken {
  int id = -1;
  std::string content;
  bool special = false;
  bool single_word = false;             ///< not inside of a word
  bool lstrip = false, rstrip = false;  ///< takes the white space on its side
  bool normalized = false;              ///< looked for in the normalized text
  std::string decoded{};  ///< what the decoder gets: the content, normalized if that is looked for
};

/// A part of a text: an added token, or (id -1) what stands between two of them.
struct TokenSegment {
  TextRange range;
  int id;
};

/// The `added_tokens` of tokenizer.json.
class AddedTokens {
 public:
  AddedTokens() = default;
  /// Refuses an id or a content that comes twice, and a token that the vocabulary has under
  /// another id.  `source` starts messages.
  AddedTokens(std::vector<AddedToken> tokens, const Vocabulary& vocabulary,
              const Normalizer& normalizer, const std::string& source);

  /// Reads {"id", "content", "special", ...}.
  static AddedToken parse(const JsonView& json, int id);

  /// The parts of `text` by the tokens that are, or are not, looked for in normalized text: of
  /// tokens that start at the same place the longest.  Special tokens only if `parse_special`.
  std::vector<TokenSegment> split(std::string_view text, bool normalized, bool parse_special) const;

  const AddedToken* find(int id) const;
  const AddedToken* find(std::string_view content) const;
  int size() const { return size_; }  ///< one more than the largest id

 private:
  bool is_word(std::string_view text, std::size_t offset) const;
  bool is_single_word(std::string_view text, TextRange range) const;

  /// A trie over the bytes of contents.
  struct Matcher {
    std::array<bool, 256> starts{};  // whether a content starts with the byte
    FlatMap<int> edges;              // (node, byte) -> node
    std::vector<int> tokens{-1};     // by node: the index of the token that ends there
    void add(std::string_view content, int token);
    /// The longest token at `text[begin]`: its index, or -1, and its end.
    int match(std::string_view text, std::size_t begin, std::size_t& end) const;
  };

  std::vector<AddedToken> tokens_;
  std::unordered_map<int, int> by_id_;
  TextMap<int> by_content_;
  Matcher as_is_, normalized_;
  std::optional<UnicodeRegex> word_;  // a character of a word, if that matters
  int size_ = 0;
};

}  // namespace turnbench
