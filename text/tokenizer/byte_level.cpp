#include "text/tokenizer/byte_level.h"

#include <array>

#include "common/text.h"

namespace turnbench {
namespace {

constexpr bool is_printable(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> make_alphabet() {
  std::array<char32_t, 256> out{};
  char32_t next = 256;
  for (int b = 0; b < 256; ++b) out[b] = is_printable(b) ? static_cast<char32_t>(b) : next++;
  return out;
}

constexpr std::array<char32_t, 256> kAlphabet = make_alphabet();
constexpr std::size_t kCharacters = 256 + 68;  // 68 bytes are not printable

constexpr std::array<int, kCharacters> make_inverse() {
  std::array<int, kCharacters> out{};
  for (int& b : out) b = -1;
  for (int b = 0; b < 256; ++b) out[kAlphabet[b]] = b;
  return out;
}

constexpr std::array<int, kCharacters> kInverse = make_inverse();

}  // namespace

char32_t byte_level_character(unsigned char byte) {
  return kAlphabet[byte];
}

std::string to_byte_level(std::string_view bytes) {
  std::string out;
  out.reserve(2 * bytes.size());
  for (unsigned char b : bytes) append_utf8(out, kAlphabet[b]);
  return out;
}

std::optional<std::string> from_byte_level(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text, i);
    if (c >= kCharacters || kInverse[c] < 0) return std::nullopt;
    out += static_cast<char>(kInverse[c]);
  }
  return out;
}

std::optional<char> byte_of_fallback(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  int value = 0;
  for (char c : token.substr(3, 2)) {
    const bool digit = c >= '0' && c <= '9';
    const bool upper = c >= 'A' && c <= 'F', lower = c >= 'a' && c <= 'f';
    if (!digit && !upper && !lower) return std::nullopt;
    value = 16 * value + (digit ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return static_cast<char>(value);
}

}  // namespace turnbench
