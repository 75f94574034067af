#include "inference/jinja/format_spec.h"

#include <array>
#include <charconv>
#include <cmath>

#include "common/text.h"
#include "inference/jinja/print.h"

namespace turnbench::jinja {
namespace {

constexpr int kMostDecimals = 300;

[[noreturn]] void refuse_type(const FormatSpec& spec, const Value& value) {
  throw complaint("found the format type '{}' for {}, expected one that fits",
                  printable(std::string_view(&spec.type, 1)), describe(value));
}

void add_fill(char32_t fill, std::size_t count, TextBuilder& out) {
  std::string one;
  append_utf8(one, fill);
  out.repeat(Text(one), count);
}

void add_filled(const FormatSpec& spec, const Slice& text, char align, TextBuilder& out) {
  const std::size_t length = count_code_points(text.bytes());
  const auto width = static_cast<std::size_t>(spec.width);
  const std::size_t missing = width > length ? width - length : 0;
  const std::size_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  add_fill(spec.fill, left, out);
  out.add(text);
  add_fill(spec.fill, missing - left, out);
}

/// The digits of an integer without its sign.
std::string integer_digits(const FormatSpec& spec, std::uint64_t magnitude) {
  switch (spec.type) {
    case 'b':
      return fmt::format("{}{:b}", spec.alternate ? "0b" : "", magnitude);
    case 'o':
      return fmt::format("{}{:o}", spec.alternate ? "0o" : "", magnitude);
    case 'x':
      return fmt::format("{}{:x}", spec.alternate ? "0x" : "", magnitude);
    case 'X':
      return fmt::format("{}{:X}", spec.alternate ? "0X" : "", magnitude);
    default:
      return std::to_string(magnitude);
  }
}

std::string float_digits(const FormatSpec& spec, double magnitude) {
  if (!std::isfinite(magnitude)) {
    const bool capital = spec.type == 'F' || spec.type == 'E' || spec.type == 'G';
    if (std::isnan(magnitude)) return capital ? "NAN" : "nan";
    return capital ? "INF" : "inf";
  }
  if (spec.type == '\0' && spec.precision < 0) return float_text(magnitude);
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  if (spec.type == '\0' || spec.alternate || precision > kMostDecimals) {
    throw complaint("found a format of floats that is not known, expected one like .2f");
  }
  const bool general = spec.type == 'g' || spec.type == 'G';
  const auto form = general                                ? std::chars_format::general
                    : spec.type == 'e' || spec.type == 'E' ? std::chars_format::scientific
                                                           : std::chars_format::fixed;
  std::array<char, 700> buffer;
  const char* end = std::to_chars(buffer.data(), buffer.data() + buffer.size(),
                                  spec.type == '%' ? magnitude * 100 : magnitude, form,
                                  general && precision == 0 ? 1 : precision)
                        .ptr;
  std::string out(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  if (spec.type == 'E' || spec.type == 'G') {
    for (char& c : out) c = c == 'e' ? 'E' : c;
  }
  return spec.type == '%' ? out + "%" : out;
}

void separate_thousands(std::string& digits) {
  std::size_t at = std::min(digits.find_first_not_of("0123456789"), digits.size());
  while (at > 3) digits.insert(at -= 3, ",");
}

}  // namespace

int format_number(std::string_view format, std::size_t& at) {
  const std::size_t begin = at;
  while (at < format.size() && format[at] >= '0' && format[at] <= '9') ++at;
  if (at == begin) return 0;
  const std::string_view digits = format.substr(begin, at - begin);
  if (digits.size() > 6) {
    throw complaint("found the width {}, expected at most 6 digits", shorten(digits, 20));
  }
  return static_cast<int>(*parse_number<std::int64_t>(digits));
}

void add_text(const FormatSpec& spec, const Text& text, TextBuilder& out) {
  if (spec.align == '=' || spec.sign != '-' || spec.thousands || spec.alternate) {
    throw complaint("found a sign, an alternate form or a comma, expected none for a string");
  }
  const std::size_t end = spec.precision < 0
                              ? text.size()
                              : offset_of(text.bytes(), static_cast<std::size_t>(spec.precision));
  add_filled(spec, {&text, 0, end}, spec.align == '\0' ? '<' : spec.align, out);
}

void add_number(const FormatSpec& spec, const Value& number, TextBuilder& out) {
  constexpr std::string_view kInteger("\0bdoxXniu", 9), kFloat("\0eEfFgG%", 8);
  const auto whole = number.integer();
  const bool as_integer = whole && kInteger.find(spec.type) != std::string_view::npos;
  if (!as_integer && (kFloat.find(spec.type) == std::string_view::npos || !number.number())) {
    refuse_type(spec, number);
  }
  std::string digits;
  bool negative = false;
  if (as_integer) {
    negative = *whole < 0;
    const auto bits = static_cast<std::uint64_t>(*whole);
    digits = integer_digits(spec, negative ? std::uint64_t{0} - bits : bits);
  } else {
    const double value = *number.number();
    negative = std::signbit(value) && !std::isnan(value);
    digits = float_digits(spec, std::fabs(value));
  }
  if (spec.thousands) separate_thousands(digits);
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  if (spec.align != '=') {
    const Text text(sign + digits);
    add_filled(spec, {&text, 0, text.size()}, spec.align == '\0' ? '>' : spec.align, out);
    return;
  }
  if (spec.thousands && spec.fill == '0') {
    throw complaint("found a format with zeros and commas, expected one of the two");
  }
  const bool prefixed = spec.alternate && digits.size() > 2 && digits[0] == '0' &&
                        std::string_view("bdoxX").find(digits[1]) != std::string_view::npos;
  const std::string head = sign + (prefixed ? digits.substr(0, 2) : "");
  if (prefixed) digits.erase(0, 2);
  const std::size_t length = head.size() + digits.size();
  const auto width = static_cast<std::size_t>(spec.width);
  out.add(head);
  add_fill(spec.fill, width > length ? width - length : 0, out);
  out.add(digits);
}

}  // namespace turnbench::jinja
