#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/json.h"
#include "inference/tokenizer/traced_text.h"

namespace turnbench {

/// A regular expression over UTF-8 text as tokenizer.json means it: Oniguruma's Ruby syntax, run by
/// PCRE2.  Character properties are those of PCRE2's Unicode version (14 in PCRE2 10.42): what was
/// assigned later counts as unassigned.  Immutable; any number of threads may search with it.
class UnicodeRegex {
 public:
  /// Refuses a bad or unsupported pattern (oniguruma_to_pcre.h) with a message that starts with
  /// `where`.
  static UnicodeRegex compile(std::string_view pattern, const std::string& where);
  /// From {"Regex": pattern} or {"String": text}.
  static UnicodeRegex parse(const JsonView& json);
  /// Matches exactly `text`.
  static UnicodeRegex literal(std::string_view text);

 private:
  friend class RegexMatcher;
  explicit UnicodeRegex(std::shared_ptr<const void> code) : code_(std::move(code)) {}
  std::shared_ptr<const void> code_;  // pcre2_code
};

/// Finds the matches of a pattern in one text after another.  Not to be shared by threads.
class RegexMatcher {
 public:
  explicit RegexMatcher(const UnicodeRegex& regex);

  /// `text` is well-formed UTF-8 and outlives the search.
  void start(std::string_view text);

  /// The next match from left to right; false if there is none.  An empty match just behind
  /// another match is passed over; an empty text has none.
  bool next(TextRange& match);

 private:
  std::shared_ptr<const void> code_;
  std::shared_ptr<void> data_;  // pcre2_match_data
  std::string_view text_;
  std::size_t from_ = 0;
  bool matched_ = false;      // there was a match,
  std::size_t last_end_ = 0;  // and it ended here
};

}  // namespace turnbench
