#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

/// UTF-8 helpers and string operations that the standard library lacks.

/// True if `text` is well-formed UTF-8 (no overlong forms, no surrogates, at most U+10FFFF).
bool is_valid_utf8(std::string_view text);

/// The number of bytes before the first ill-formed one; text.size() if there is none.
std::size_t valid_utf8_prefix(std::string_view text);

/// @throws Error (input) if `text` is not well-formed UTF-8; the message gives the offset of the
/// first ill-formed byte, from 0.  `source` names the text.
void require_utf8(std::string_view text, std::string_view source);

/// A copy in which each ill-formed sequence is replaced by U+FFFD, by the Unicode Standard's
/// "substitution of maximal subparts", as in other languages' decoders.
std::string replace_invalid_utf8(std::string_view text);

/// Decodes the code point at `text[offset]` and advances `offset` past it.  An ill-formed byte
/// gives U+FFFD and advances by one.
char32_t next_code_point(std::string_view text, std::size_t& offset);

void append_utf8(std::string& out, char32_t code_point);

/// True for the second and later bytes of a character.
inline bool is_utf8_continuation(char byte) {
  return (byte & 0xC0) == 0x80;
}

/// The start of the character that contains the byte at `offset`.  Returns `offset` if it is the
/// start of a character or the end of the text.
std::size_t start_of_character(std::string_view text, std::size_t offset);

/// All code points; ill-formed bytes become U+FFFD.
std::u32string to_code_points(std::string_view text);
std::string to_utf8(std::u32string_view code_points);

/// A copy for one-line messages: control characters and ill-formed bytes are written as \xNN.
std::string printable(std::string_view text);

/// At most `max` bytes of `text`, cut between characters; "..." marks a cut.
std::string shorten(std::string_view text, std::size_t max);
/// "1 cell", "2 cells".
std::string counted(std::size_t count, std::string_view what);

std::vector<std::string> split(std::string_view text, std::string_view separator);
std::string replace_all(std::string_view text, std::string_view what, std::string_view with);
std::string trim(std::string_view text);  ///< removes ASCII white space at both ends

/// Parses the whole text as a number; nullopt if it is none.  White space and a plus sign are not
/// allowed.  `Number` is double (which may be infinite or NaN) or std::int64_t (decimal digits).
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
