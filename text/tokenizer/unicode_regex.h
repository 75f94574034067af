#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/json.h"
#include "text/tokenizer/traced_text.h"

namespace turnbench {

/// A regular expression of tokenizer.json: Oniguruma's Ruby syntax over UTF-8 text, matched by
/// PCRE2.  Character properties are those of PCRE2's Unicode version (14 in PCRE2 10.42); later
/// characters count as unassigned.  Immutable; threads may share it.
class UnicodeRegex {
 public:
  /// @throws Error (input), whose message begins with `where`, for an invalid or unsupported
  /// pattern (see oniguruma_to_pcre).
  static UnicodeRegex compile(std::string_view pattern, const std::string& where);
  /// Reads {"Regex": pattern} or {"String": text}.
  static UnicodeRegex parse(const JsonView& json);
  /// A pattern that matches exactly `text`.
  static UnicodeRegex literal(std::string_view text);

 private:
  friend class RegexMatcher;
  explicit UnicodeRegex(std::shared_ptr<const void> code) : code_(std::move(code)) {}
  std::shared_ptr<const void> code_;  // pcre2_code
};

/// Finds the matches of a pattern in texts.  Threads must not share it.
class RegexMatcher {
 public:
  explicit RegexMatcher(const UnicodeRegex& regex);

  /// Begins a search.  `text` must be well-formed UTF-8 and outlive the search.
  void start(std::string_view text);

  /// Finds the next match from left to right; returns false if there is none.  An empty match
  /// directly after another match is skipped; an empty text has no match.
  bool next(TextRange& match);

 private:
  std::shared_ptr<const void> code_;
  std::shared_ptr<void> data_;  // pcre2_match_data
  std::string_view text_;
  std::size_t from_ = 0;
  bool matched_ = false;      // a match was found before
  std::size_t last_end_ = 0;  // its end
};

}  // namespace turnbench
