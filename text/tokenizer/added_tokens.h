#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/json.h"
#include "text/tokenizer/flat_map.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/text_map.h"
#include "text/tokenizer/traced_text.h"
#include "text/tokenizer/unicode_regex.h"
#include "text/tokenizer/vocabulary.h"

namespace turnbench {

/// A token that is matched in the text before the model's own tokenization (tokenizers'
/// AddedToken).
struct AddedToken {
  int id = -1;
  std::string content;
  bool special = false;
  bool single_word = false;             ///< matches only if it is not part of a word
  bool lstrip = false, rstrip = false;  ///< also matches the white space on that side
  bool normalized = false;              ///< is matched in the normalized text
  std::string decoded{};  ///< the content as the decoder receives it, normalized if `normalized`
};

/// A part of a text: an added token, or the text between two of them (id -1).
struct TokenSegment {
  TextRange range;
  int id;
};

/// The `added_tokens` of tokenizer.json.
class AddedTokens {
 public:
  AddedTokens() = default;
  /// source: prefix of messages.
  /// @throws Error (input) for repeated ids or contents, and for a token that has another id in the
  /// vocabulary.
  AddedTokens(std::vector<AddedToken> tokens, const Vocabulary& vocabulary,
              const Normalizer& normalizer, const std::string& source);

  /// Reads an object {"content", "special", ...} of tokenizer.json.
  static AddedToken parse(const JsonView& json, int id);

  /// Splits `text` at the added tokens with this value of `normalized`.  Of tokens that match at
  /// the same place, the longest is taken.  Special tokens match only if `parse_special`.
  std::vector<TokenSegment> split(std::string_view text, bool normalized, bool parse_special) const;

  const AddedToken* find(int id) const;
  const AddedToken* find(std::string_view content) const;
  int size() const { return size_; }  ///< one more than the largest id

 private:
  bool is_word(std::string_view text, std::size_t offset) const;
  bool is_single_word(std::string_view text, TextRange range) const;

  /// A trie over the bytes of contents.
  struct Matcher {
    std::array<bool, 256> starts{};  // true for the first bytes of contents
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
  std::optional<UnicodeRegex> word_;  // matches a word character; only if some token needs it
  int size_ = 0;
};

}  // namespace turnbench
