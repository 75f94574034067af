#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "common/json.h"
#include "inference/tokenizer/traced_text.h"
#include "inference/tokenizer/unicode_regex.h"

namespace turnbench {

/// Cuts pieces of a text at the matches of a pattern.
class Splitter {
 public:
  /// What becomes of the matches.
  enum class Behavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };
  static Behavior parse_behavior(const JsonView& json);

  Splitter(UnicodeRegex pattern, Behavior behavior, bool invert = false)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  /// Splits each piece of `text` by itself.
  void apply(std::string_view text, std::vector<TextRange>& pieces) const;

 private:
  UnicodeRegex pattern_;
  Behavior behavior_;
  bool invert_;  // what does not match counts as the match
};

/// Cuts a normalized text into the words that the model merges one by one: the `pre_tokenizer` of
/// tokenizer.json.
class PreTokenizer {
 public:
  /// Reads ByteLevel, Split, Digits, Punctuation, Metaspace, Whitespace, WhitespaceSplit,
  /// CharDelimiterSplit and Sequence of these; null is none.  Refuses other types, and what would
  /// rewrite a text behind ByteLevel.
  static PreTokenizer parse(const JsonView& json);

  /// Words are the matches of `pattern` and what is between them; their bytes are what is merged.
  static PreTokenizer byte_level_words(std::string_view pattern);

  /// True if the words are sequences of bytes and the vocabulary is written in the byte-level
  /// alphabet.
  bool byte_level() const { return byte_level_; }

  /// May rewrite `text` (prefix spaces).  Returns the words in order, none empty.
  std::vector<TextRange> apply(TracedText& text) const;

 private:
  /// Rewrites a text and moves the pieces along.
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
  std::vector<Splitter> mapped_;  // behind ByteLevel, on text in the byte-level alphabet
};

}  // namespace turnbench
