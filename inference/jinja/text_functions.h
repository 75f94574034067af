#pragma once

#include <optional>
#include <vector>

#include "inference/jinja/text.h"

namespace turnbench::jinja {

/// What Python's `str` does, on texts that know where they came from.  Parts are returned as slices
/// of the text they are cut from, so that nothing is lost; only changes of case forget.

/// `strip`: without white space, or without any of the characters `chars`.
Slice strip(const Text& text, std::optional<std::string_view> chars, bool left, bool right);

/// `split`: at a separator that is not empty, or at white space; at most `most` times if that is
/// not negative, counted from the left or from the right.
std::vector<Slice> split_text(const Text& text, std::optional<std::string_view> separator,
                              std::int64_t most, bool from_right);

/// `splitlines`: at each of Python's line ends, which are kept or not.
std::vector<Slice> split_lines(const Text& text, bool keep_ends);

/// `find` and `rfind`, in bytes; npos for none.
std::size_t find_first(std::string_view text, std::string_view part);
std::size_t find_last(std::string_view text, std::string_view part);

/// `count`: occurrences that do not overlap; those of "" are around each character.
std::size_t count_of(std::string_view text, std::string_view part);

/// `replace`: at most `most` times if that is not negative.
Text replace(const Text& text, std::string_view from, const Text& to, std::int64_t most,
             Budget& budget);

/// `capitalize` and `title`.
std::string capitalize(std::string_view text);
std::string title(std::string_view text);

/// Jinja2's filter title: words begin behind white space, hyphens and opening brackets.
std::string title_words(std::string_view text);

/// `isupper` and `islower`: with some cased character, and none of the other case.
bool is_upper(std::string_view text);
bool is_lower(std::string_view text);

/// Whether all characters are of a kind, and there is one.
bool is_alpha(std::string_view text);
bool is_digit(std::string_view text);
bool is_alnum(std::string_view text);
bool is_space(std::string_view text);

/// The number of maximal runs of `\w`.
std::size_t count_words(std::string_view text);

}  // namespace turnbench::jinja
