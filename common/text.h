#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

/// UTF-8 helpers and the few string operations the standard library lacks.

/// True if `text` is well-formed UTF-8 (no overlong forms, no surrogates, at most U+10FFFF).
bool is_valid_utf8(std::string_view text);

/// The number of bytes in front of the first ill-formed one; text.size() if all is well.
std::size_t valid_utf8_prefix(std::string_view text);

/// Refuses what is not well-formed UTF-8 with the place of its first such byte, from 0; `source`
/// names the text.
void require_utf8(std::string_view text, std::string_view source);

/// A copy in which every maximal part of an ill-formed sequence is one U+FFFD (the Unicode
/// Standard's "substitution of maximal subparts", as decoders of other languages do it).
std::string replace_invalid_utf8(std::string_view text);

/// Decodes the code point at `text[offset]` and moves `offset` past it.  An ill-formed byte yields
/// U+FFFD and moves by one, so that any input is walked to its end.
char32_t next_code_point(std::string_view text, std::size_t& offset);

void append_utf8(std::string& out, char32_t code_point);

/// True for the second and later bytes of a character.
inline bool is_utf8_continuation(char byte) {
  return (byte & 0xC0) == 0x80;
}

/// The start of the character that `offset` lies in: `offset` itself at a start and at the end.
std::size_t start_of_character(std::string_view text, std::size_t offset);

/// All code points; ill-formed bytes become U+FFFD.
std::u32string to_code_points(std::string_view text);
std::string to_utf8(std::u32string_view code_points);

/// A copy that is safe in a one-line message: control characters and ill-formed bytes as \xNN.
std::string printable(std::string_view text);

/// At most `max` bytes of `text`, cut at a character with "..." where something is left out.
std::string shorten(std::string_view text, std::size_t max);

std::vector<std::string> split(std::string_view text, std::string_view separator);
std::string replace_all(std::string_view text, std::string_view what, std::string_view with);
std::string trim(std::string_view text);  ///< without ASCII white space at both ends

/// What the whole text says as a number, without white space or a plus sign: a double, which may
/// be infinite or a NaN, or an int64 in decimal digits.
template <typename Number>
std::optional<Number> parse_number(std::string_view text);

template <typename Strings>
std::string join(const Strings& parts, std::string_view separator) {
  std::string out;
  bool first = true;
  for (const auto& part : parts) {
    if (!first) out += separator;
    out += part;
    first = false;
  }
  return out;
}

}  // namespace turnbench
