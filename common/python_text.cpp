#include "common/python_text.h"

#include <string.h>  // memmem
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "common/special_casing.h"
#include "common/text.h"

namespace turnbench::python {
namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool is_ascii(std::string_view text) {
  for (char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  }
  return true;
}

/// Whether the capital sigma at `i` ends a word: a cased letter before it and none after it, where
/// case-ignorable characters in between do not count.
bool is_final_sigma(std::u32string_view text, std::size_t i) {
  std::size_t before = i;
  while (before > 0 && is_case_ignorable(text[before - 1])) --before;
  if (before == 0 || !is_cased(text[before - 1])) return false;
  std::size_t after = i + 1;
  while (after < text.size() && is_case_ignorable(text[after])) ++after;
  return after == text.size() || !is_cased(text[after]);
}

/// The maximal runs of code points that satisfy `member`.
template <typename Predicate>
std::vector<std::string_view> runs(std::string_view text, Predicate member) {
  std::vector<std::string_view> out;
  std::size_t start = 0;
  bool inside = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t here = i;
    const bool in = member(next_code_point(text, i));
    if (in && !inside) start = here;
    if (!in && inside) out.push_back(text.substr(start, here - start));
    inside = in;
  }
  if (inside) out.push_back(text.substr(start));
  return out;
}

/// The digits at `text[i]`, a point and more digits, each if present; `i` moves past them.
std::string take_number(std::u32string_view text, std::size_t& i) {
  const auto digit = [&](std::size_t at) {
    return at < text.size() ? decimal_digit(text[at]) : -1;
  };
  std::string number;
  for (; digit(i) >= 0; ++i) number += static_cast<char>('0' + digit(i));
  if (i < text.size() && text[i] == '.' && digit(i + 1) >= 0) {
    number += '.';
    for (++i; digit(i) >= 0; ++i) number += static_cast<char>('0' + digit(i));
  }
  return number;
}

}  // namespace

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0x2028 || c == 0x2029 || category(c) == UTF8PROC_CATEGORY_ZS;
}

bool is_word(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return true;
    default:
      return c == '_';
  }
}

int decimal_digit(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9' ? static_cast<int>(c - '0') : -1;
  if (category(c) != UTF8PROC_CATEGORY_ND) return -1;
  // Digits form blocks of ten that begin with zero; several blocks may be adjacent.
  int before = 0;
  while (category(c - before - 1) == UTF8PROC_CATEGORY_ND) ++before;
  return before % 10;
}

std::u32string lower(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char32_t c = text[i];
    if (c < 0x80) {
      out += c >= 'A' && c <= 'Z' ? c + 0x20 : c;
    } else if (c == 0x130) {
      out += U"i\u0307";
    } else if (c == 0x3A3) {
      out += is_final_sigma(text, i) ? U'\u03C2' : U'\u03C3';
    } else {
      out += static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
    }
  }
  return out;
}

std::string lower(std::string_view text) {
  if (!is_ascii(text)) return to_utf8(lower(to_code_points(text)));
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 0x20);
  }
  return out;
}

std::string upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text, i);
    if (const std::u32string special = special_upper(c); !special.empty()) {
      out += to_utf8(special);
    } else {
      append_utf8(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
    }
  }
  return out;
}

std::string_view first_character(std::string_view text) {
  std::size_t end = 0;
  next_code_point(text, end);
  return text.substr(0, end);
}

std::vector<std::string_view> split_words(std::string_view text) {
  return runs(text, [](char32_t c) { return !is_space(c); });
}

std::string_view strip(std::string_view text) {
  std::size_t begin = text.size(), end = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t here = i;
    if (is_space(next_code_point(text, i))) continue;
    begin = std::min(begin, here);
    end = i;
  }
  return begin < end ? text.substr(begin, end - begin) : text.substr(0, 0);
}

bool contains(std::string_view text, std::string_view part) {
  return find(text, part) != std::string_view::npos;
}

std::size_t find(std::string_view text, std::string_view part) {
  if (part.empty()) return 0;
  if (part.size() > text.size()) return std::string_view::npos;
  const void* found = ::memmem(text.data(), text.size(), part.data(), part.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  return join(split(text, from), to);
}

std::vector<std::string_view> digit_runs(std::string_view text) {
  return runs(text, [](char32_t c) { return decimal_digit(c) >= 0; });
}

std::vector<std::string_view> ascii_digit_runs(std::string_view text) {
  return runs(text, [](char32_t c) { return c >= '0' && c <= '9'; });
}

std::optional<std::string> first_number(std::string_view text) {
  const std::u32string all = to_code_points(text);
  std::size_t i = 0;
  while (i < all.size() && decimal_digit(all[i]) < 0) ++i;
  if (i == all.size()) return std::nullopt;
  return take_number(all, i);
}

std::vector<std::string> decimal_numbers(std::string_view text) {
  std::vector<std::string> out;
  const std::u32string all = to_code_points(text);
  for (std::size_t i = 0; i < all.size();) {
    std::string number = take_number(all, i);
    if (number.empty()) {
      ++i;
    } else {
      out.push_back(std::move(number));
    }
  }
  return out;
}

std::optional<std::string> parse_int(std::string_view text) {
  text = strip(text);
  std::string digits;
  bool negative = false, after_digit = false;
  for (std::size_t i = 0; i < text.size();) {
    const bool first = i == 0;
    const char32_t c = next_code_point(text, i);
    const int digit = decimal_digit(c);
    if (digit >= 0) {
      if (digit > 0 || !digits.empty()) digits += static_cast<char>('0' + digit);
    } else if (first && (c == '+' || c == '-')) {
      negative = c == '-';
    } else if (c != '_' || !after_digit) {
      return std::nullopt;
    }
    after_digit = digit >= 0;
  }
  if (!after_digit) return std::nullopt;  // no digit at all, or an underscore at the end
  if (digits.empty()) return "0";
  return negative ? "-" + digits : digits;
}

std::optional<double> parse_float(std::string_view text) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status == std::errc::invalid_argument || end != text.data() + text.size()) {
    return std::nullopt;
  }
  if (status == std::errc::result_out_of_range) {
    // Too many digits before the point, or too many zeros after it.
    const std::size_t first = text.find_first_not_of("-0");
    const bool small = first == std::string_view::npos || text[first] == '.' ||
                       text.find("e-") != std::string_view::npos;
    value = small ? 0.0 : std::numeric_limits<double>::infinity();
    if (text.front() == '-') value = -value;
  }
  return value;
}

double round_decimal(double value, int digits) {
  if (!std::isfinite(value)) return value;
  // 309 digits before the point, a sign, the point, and the requested digits
  std::array<char, 400> text;
  const char* end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, digits)
          .ptr;
  return *parse_float({text.data(), static_cast<std::size_t>(end - text.data())});
}

}  // namespace turnbench::python
