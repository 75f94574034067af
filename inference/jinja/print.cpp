#include "inference/jinja/print.h"

#include <utf8proc.h>

#include <array>
#include <charconv>
#include <cmath>

#include "common/text.h"
#include "inference/jinja/object.h"

namespace turnbench::jinja {
namespace {

/// The escape of a character in Python's repr of a string that stands between `quote`s, or "".
std::string repr_escape(char32_t c, char quote) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\\':
      return "\\\\";
    default:
      if (c == static_cast<char32_t>(quote)) return std::string("\\") + quote;
      if (is_printable(c)) return "";
      const auto code = static_cast<std::uint32_t>(c);
      if (c < 0x100) return fmt::format("\\x{:02x}", code);
      return c < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
  }
}

void represent_text(const Text& text, TextBuilder& out) {
  const std::string_view bytes = text.bytes();
  const bool has_single = bytes.find('\'') != std::string_view::npos;
  const char quote = has_single && bytes.find('"') == std::string_view::npos ? '"' : '\'';
  out.add(std::string_view(&quote, 1));
  std::size_t done = 0;
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t here = i;
    const std::string escape = repr_escape(next_code_point(bytes, i), quote);
    if (escape.empty()) continue;
    out.add(Slice{&text, done, here}).add(escape);
    done = i;
  }
  out.add(Slice{&text, done, bytes.size()}).add(std::string_view(&quote, 1));
}

void represent_items(const std::vector<Value>& items, TextBuilder& out) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.add(", ");
    represent(items[i], out);
  }
}

void represent_dict(const Dict& dict, TextBuilder& out) {
  out.add("{");
  for (std::size_t i = 0; i < dict.items.size(); ++i) {
    if (i > 0) out.add(", ");
    represent(dict.items[i].first, out);
    out.add(": ");
    represent(dict.items[i].second, out);
  }
  out.add("}");
}

}  // namespace

void print(const Value& value, TextBuilder& out) {
  if (value.is(Kind::kUndefined)) return;
  if (value.is(Kind::kString)) {
    out.add(value.as_text());
  } else {
    represent(value, out);
  }
}

void represent(const Value& value, TextBuilder& out) {
  const Budget::Level level(out.budget());
  out.budget().steps(1);
  switch (value.kind()) {
    case Kind::kUndefined:
      out.add("Undefined");
      return;
    case Kind::kNone:
      out.add("None");
      return;
    case Kind::kBool:
      out.add(value.as_bool() ? "True" : "False");
      return;
    case Kind::kInteger:
      out.add(std::to_string(*value.integer()));
      return;
    case Kind::kFloat:
      out.add(float_text(value.as_float()));
      return;
    case Kind::kString:
      if (value.as_string().safe) out.add("Markup(");
      represent_text(value.as_text(), out);
      if (value.as_string().safe) out.add(")");
      return;
    case Kind::kList:
      out.add("[");
      represent_items(value.as_list().items, out);
      out.add("]");
      return;
    case Kind::kTuple:
      out.add("(");
      represent_items(value.as_list().items, out);
      out.add(value.as_list().items.size() == 1 ? ",)" : ")");
      return;
    case Kind::kDict:
      represent_dict(value.as_dict(), out);
      return;
    case Kind::kObject:
      if (value.as_object()->print(out)) return;
      throw complaint("found {}, expected a value that has a text (|list makes a list of it)",
                      describe(value));
  }
}

String to_string(const Value& value, Budget& budget) {
  if (value.is(Kind::kString)) return value.as_string();
  TextBuilder out(budget);
  print(value, out);
  return {std::make_shared<const Text>(out.finish())};
}

std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  // D.DDDe+XX, of which Python writes the exponent only if it is below -4 or at least 16.
  std::array<char, 40> buffer;
  const char* end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number,
                                  std::chars_format::scientific)
                        .ptr;
  const std::string text(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  const std::size_t e = text.find('e');
  const int exponent = static_cast<int>(
      *parse_number<std::int64_t>(std::string_view(text).substr(e + (text[e + 1] == '+' ? 2 : 1))));
  if (exponent < -4 || exponent >= 16) return text;
  std::string digits;
  for (const char c : text.substr(0, e)) {
    if (c != '.' && c != '-') digits += c;
  }
  if (exponent < 0) digits.insert(0, static_cast<std::size_t>(-exponent), '0');
  const std::size_t point = exponent < 0 ? 1 : static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= point) digits.resize(point + 1, '0');
  digits.insert(point, 1, '.');
  return std::signbit(number) ? "-" + digits : digits;
}

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

}  // namespace turnbench::jinja
