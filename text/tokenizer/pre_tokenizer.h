#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "common/json.h"
#include "text/tokenizer/traced_text.h"
#include "text/tokenizer/unicode_regex.h"

namespace turnbench {

/// Splits pieces of a text at the matches of a pattern.
class Splitter {
 public:
  /// Treatment of the matches (tokenizers' SplitDelimiterBehavior).
  enum class Behavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };
  static Behavior parse_behavior(const JsonView& json);

  Splitter(UnicodeRegex pattern, Behavior behavior, bool invert = false)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  /// Splits each piece of `text` separately.
  void apply(std::string_view text, std::vector<TextRange>& pieces) const;

 private:
  UnicodeRegex pattern_;
  Behavior behavior_;
  bool invert_;  // the text between matches counts as the matches
};

/// The `pre_tokenizer` of tokenizer.json, which splits a normalized text into words; the model
/// encodes each word separately.
class PreTokenizer {
 public:
  /// Reads ByteLevel, Split, Digits, Punctuation, Metaspace, Whitespace, WhitespaceSplit,
  /// CharDelimiterSplit and Sequence; null means none.
  /// @throws Error (input) for other types, and for one that would rewrite a text after ByteLevel.
  static PreTokenizer parse(const JsonView& json);

  /// A byte-level pre-tokenizer whose words are the matches of `pattern` and the texts between
  /// them.
  static PreTokenizer byte_level_words(std::string_view pattern);

  /// True if words are sequences of bytes and the vocabulary is in the byte-level alphabet.
  bool byte_level() const { return byte_level_; }

  /// Returns the words of `text` in order; none is empty.  May rewrite `text` (prefix spaces).
  std::vector<TextRange> apply(TracedText& text) const;

 private:
  /// Rewrites a text and adjusts the ranges of its pieces.
  using Edit = std::function<void(TracedText&, std::vector<TextRange>&)>;
  struct Stage {
    Edit edit;  // may be empty
    std::optional<Splitter> splitter;
  };

  void add(const JsonView& json);
  void add_byte_level(const JsonView& json);
  void add_metaspace(const JsonView& json);

  bool byte_level_ = false;
  std::vector<Stage> stages_;
  std::vector<Splitter> mapped_;  // after ByteLevel: for text in the byte-level alphabet
};

}  // namespace turnbench
