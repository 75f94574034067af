#include "common/text.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>

#include "common/error.h"

namespace turnbench {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

/// Length of the well-formed sequence at `offset` and its code point, or {0, U+FFFD}.
std::pair<int, char32_t> decode(std::string_view text, std::size_t offset) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[offset + i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const int length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || offset + length > text.size()) return {0, kReplacement};
  char32_t c = lead & (0x7F >> length);
  for (int i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {0, kReplacement};
    c = (c << 6) | (byte(i) & 0x3F);
  }
  const char32_t least = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
  if (c < least || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return {0, kReplacement};
  return {length, c};
}

bool is_ascii(const char* eight_bytes) {
  std::uint64_t bytes;
  std::memcpy(&bytes, eight_bytes, 8);
  return (bytes & 0x8080808080808080) == 0;
}

/// True if `part`, of 2 or 3 bytes, starts some well-formed sequence that is longer.
bool can_continue(std::string_view part) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(part[i]); };
  const unsigned char lead = byte(0);
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xE0 || lead > 0xF4 || part.size() >= length) return false;
  const unsigned char least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < least || byte(1) > most) return false;
  return part.size() == 2 || (byte(2) & 0xC0) == 0x80;
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  return valid_utf8_prefix(text) == text.size();
}

std::size_t valid_utf8_prefix(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    if (i + 8 <= text.size() && is_ascii(text.data() + i)) {
      i += 8;
      continue;
    }
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    const int length = decode(text, i).first;
    if (length == 0) return i;
    i += length;
  }
  return text.size();
}

void require_utf8(std::string_view text, std::string_view source) {
  const std::size_t good = valid_utf8_prefix(text);
  if (good == text.size()) return;
  throw input_error("{}: byte {}: found 0x{:02x}, expected well-formed UTF-8", source, good,
                    static_cast<unsigned char>(text[good]));
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  for (;;) {
    const std::size_t good = valid_utf8_prefix(text);
    out += text.substr(0, good);
    text.remove_prefix(good);
    if (text.empty()) return out;
    append_utf8(out, kReplacement);
    // A longer part is ill-formed only in its last byte: a further byte could still complete it.
    std::size_t part = 1;
    while (part < 3 && part < text.size() && can_continue(text.substr(0, part + 1))) ++part;
    text.remove_prefix(part);
  }
}

char32_t next_code_point(std::string_view text, std::size_t& offset) {
  const auto [length, c] = decode(text, offset);
  offset += length == 0 ? 1 : length;
  return c;
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

std::size_t start_of_character(std::string_view text, std::size_t offset) {
  while (offset > 0 && offset < text.size() && is_utf8_continuation(text[offset])) --offset;
  return offset;
}

std::u32string to_code_points(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) out += next_code_point(text, i);
  return out;
}

std::string to_utf8(std::u32string_view code_points) {
  std::string out;
  for (char32_t c : code_points) append_utf8(out, c);
  return out;
}

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto [length, c] = decode(text, i);
    if (length == 0 || c < 0x20 || c == 0x7F) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
      ++i;
    } else {
      out += text.substr(i, length);
      i += length;
    }
  }
  return out;
}

std::string shorten(std::string_view text, std::size_t max) {
  if (text.size() <= max) return std::string(text);
  while (max > 0 && (static_cast<unsigned char>(text[max]) & 0xC0) == 0x80) --max;
  return std::string(text.substr(0, max)) + "...";
}

std::string counted(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> out;
  std::size_t start = 0;
  for (;;) {
    const std::size_t end = text.find(separator, start);
    if (end == std::string_view::npos) break;
    out.emplace_back(text.substr(start, end - start));
    start = end + separator.size();
  }
  out.emplace_back(text.substr(start));
  return out;
}

std::string replace_all(std::string_view text, std::string_view what, std::string_view with) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, done)) {
    out += text.substr(done, at - done);
    out += with;
    done = at + what.size();
  }
  return out.append(text.substr(done));
}

std::string trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r\f\v";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(kSpace) - first + 1));
}

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}
template std::optional<double> parse_number(std::string_view text);
template std::optional<std::int64_t> parse_number(std::string_view text);

}  // namespace turnbench
