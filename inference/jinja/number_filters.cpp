#include <algorithm>
#include <charconv>
#include <cmath>

#include "common/python_text.h"
#include "common/text.h"
#include "inference/jinja/arithmetic.h"
#include "inference/jinja/compare.h"
#include "inference/jinja/library.h"

namespace turnbench::jinja {
namespace {

std::int64_t within_64_bits(const std::optional<std::int64_t>& number, std::string_view text) {
  if (number) return *number;
  throw complaint("found \"{}\", expected an integer of 64 bits", printable(shorten(text, 40)));
}

Value int_filter(const Call& call) {
  const Value& self = call.self();
  const Value fallback = call.has(0) ? call.get(0) : Value(std::int64_t{0});
  if (self.is(Kind::kUndefined)) refuse_undefined(self);
  if (const auto whole = self.integer()) return *whole;
  std::optional<double> number = self.number();
  if (self.is(Kind::kString)) {
    if (const auto whole = parse_integer(self.bytes(), call.integer(1, 10))) return *whole;
    number = parse_float(self.bytes());
    if (number && std::isinf(*number)) return fallback;
  }
  if (!number || std::isnan(*number)) return fallback;
  return to_integer(*number);
}

Value float_filter(const Call& call) {
  const Value& self = call.self();
  if (self.is(Kind::kUndefined)) refuse_undefined(self);
  std::optional<double> number = self.number();
  if (self.is(Kind::kString)) number = parse_float(self.bytes());
  if (number) return *number;
  return call.has(0) ? call.get(0) : Value(0.0);
}

std::optional<std::int64_t> sum_of(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  return __builtin_add_overflow(a, b, &out) ? std::nullopt : std::optional(out);
}

/// An integer rounded to a power of ten, ties to even.
Value rounded_integer(std::int64_t value, std::int64_t digits) {
  if (digits >= 0) return value;
  if (digits < -18) return std::int64_t{0};
  std::int64_t unit = 1;
  for (; digits < 0; ++digits) unit *= 10;
  const std::int64_t rest = value % unit, base = value - rest;
  const std::int64_t magnitude = rest < 0 ? -rest : rest;
  const bool away =
      magnitude > unit - magnitude || (magnitude == unit - magnitude && (base / unit) % 2 != 0);
  if (!away) return base;
  return within_64_bits(sum_of(base, rest < 0 ? -unit : unit), std::to_string(value));
}

Value round_filter(const Call& call) {
  const Value& self = call.self();
  const std::int64_t digits = call.integer(0, 0);
  const std::string_view method = call.has(1) ? call.text(1).bytes() : "common";
  if (method != "common" && method != "ceil" && method != "floor") {
    throw complaint("found the method {}, expected common, ceil or floor",
                    printable(shorten(method, 40)));
  }
  if (self.is(Kind::kUndefined)) refuse_undefined(self);
  const auto number = self.number();
  if (!number) throw complaint("found {}, expected a number", describe(self));
  if (method == "common") {
    if (const auto whole = self.integer()) return rounded_integer(*whole, digits);
    if (digits < 0) throw complaint("found {} digits for a float, expected 0 or more", digits);
    return python::round_decimal(*number, static_cast<int>(std::min<std::int64_t>(digits, 320)));
  }
  const double unit = std::pow(10.0, static_cast<double>(digits));
  const double scaled = *number * unit;
  if (!std::isfinite(scaled) || unit == 0) {
    throw complaint("found {} and {} digits, expected fewer of a finite number", describe(self),
                    digits);
  }
  return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit;
}

constexpr Function kNumberFilters[] = {
    {"int", "default? base?", int_filter},
    {"float", "default?", float_filter},
    {"abs", "", [](const Call& c) { return absolute(c.self()); }},
    {"round", "precision? method?", round_filter},
};

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t base) {
  if (base == 10) {
    const auto digits = python::parse_int(text);
    if (!digits) return std::nullopt;
    return within_64_bits(parse_number<std::int64_t>(*digits), text);
  }
  if (base != 0 && (base < 2 || base > 36)) {
    throw complaint("found the base {}, expected 0 or 2 to 36", base);
  }
  std::string digits = python::lower(python::strip(text));
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.erase(0, 1);
  for (const auto& [prefix, of] : {std::pair("0x", 16), {"0o", 8}, {"0b", 2}}) {
    if (!digits.starts_with(prefix) || (base != 0 && base != of)) continue;
    base = of;
    digits.erase(0, digits.substr(2).starts_with('_') ? 3 : 2);
    break;
  }
  if (base == 0) {
    const bool zeros = digits.find_first_not_of("0_") == std::string::npos;
    if (digits.starts_with('0') && !zeros) return std::nullopt;
    base = 10;
  }
  if (digits.empty() || digits.starts_with('_') || digits.ends_with('_') ||
      digits.find("__") != std::string::npos) {
    return std::nullopt;
  }
  std::erase(digits, '_');
  std::uint64_t magnitude = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(),
                                             magnitude, static_cast<int>(base));
  if (end != digits.data() + digits.size() || status == std::errc::invalid_argument) {
    return std::nullopt;
  }
  const bool fits = status == std::errc() && magnitude <= INT64_MAX;
  const auto whole = static_cast<std::int64_t>(magnitude);
  return within_64_bits(fits ? std::optional(negative ? -whole : whole) : std::nullopt, text);
}

std::optional<double> parse_float(std::string_view text) {
  std::string number;  // with ASCII digits, without underscores between digits
  text = python::strip(text);
  bool after_digit = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    const int digit = python::decimal_digit(c);
    if (c == '_') {
      std::size_t next = at;
      if (!after_digit || at == text.size() ||
          python::decimal_digit(next_code_point(text, next)) < 0) {
        return std::nullopt;
      }
    } else if (digit >= 0) {
      number += static_cast<char>('0' + digit);
    } else {
      append_utf8(number, c);
    }
    after_digit = digit >= 0;
  }
  if (number.starts_with('+')) {
    number.erase(0, 1);
    if (number.starts_with('-')) return std::nullopt;
  }
  const std::string lower = python::lower(number);
  if (lower.find_first_of("(n") != std::string::npos) {  // from_chars has forms of its own
    const bool word = lower == "nan" || lower == "-nan" || lower == "inf" || lower == "-inf" ||
                      lower == "infinity" || lower == "-infinity";
    if (!word) return std::nullopt;
  }
  return python::parse_float(number);
}

std::span<const Function> number_filters() {
  return kNumberFilters;
}

}  // namespace turnbench::jinja
