#include "text/jinja/print.h"

#include <utf8proc.h>

#include <cmath>

namespace turnbench::jinja {
namespace {

/// `str.isprintable` of one character.
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

/// The escape of a character in Python's repr of a string quoted by `quote`, or "".
std::string repr_escape(char32_t c, char quote) {
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  if (c == '\\') return "\\\\";
  if (c == static_cast<char32_t>(quote)) return std::string("\\") + quote;
  if (is_printable(c)) return "";
  const auto code = static_cast<std::uint32_t>(c);
  if (c < 0x100) return fmt::format("\\x{:02x}", code);
  return c < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
}

/// Python's `repr` of a float: the shortest digits that parse as the same number.
std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  const std::string digits = fmt::format("{}", number);
  return digits.find_first_of(".e") == std::string::npos ? digits + ".0" : digits;
}

/// Appends Python's `repr(value)`, the form of elements in printed lists and dicts.
class Representation {
 public:
  explicit Representation(TextBuilder& out) : out_(out) {}

  void add(const Value& value) {
    const Budget::Level level(out_.budget());
    out_.budget().steps(1);
    switch (value.kind()) {
      case Kind::kUndefined:
        out_.add("Undefined");
        return;
      case Kind::kNone:
        out_.add("None");
        return;
      case Kind::kBool:
        out_.add(value.as_bool() ? "True" : "False");
        return;
      case Kind::kInteger:
        out_.add(std::to_string(*value.integer()));
        return;
      case Kind::kFloat:
        out_.add(float_text(value.as_float()));
        return;
      case Kind::kString:
        add_text(value.as_string());
        return;
      case Kind::kDict:
        add_dict(value.as_dict());
        return;
      default:
        add_sequence(value);
    }
  }

 private:
  void add_text(const String& string) {
    const std::string_view bytes = string.text->bytes();
    const bool has_single = bytes.find('\'') != std::string_view::npos;
    const char quote = has_single && bytes.find('"') == std::string_view::npos ? '"' : '\'';
    out_.add(string.marked ? "Markup(" : "").add(std::string_view(&quote, 1));
    out_.add_escaped(*string.text, [&](char32_t c) { return repr_escape(c, quote); });
    out_.add(std::string_view(&quote, 1)).add(string.marked ? ")" : "");
  }

  void add_sequence(const Value& value) {
    if (!value.is_list_or_tuple()) {
      throw complaint("found {}, expected a value that has a text (|list makes a list of it)",
                      describe(value));
    }
    const bool tuple = value.is_sequence("tuple");
    const std::vector<Value>& items = value.items();
    out_.add(tuple ? "(" : "[");
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.add(", ");
      add(items[i]);
    }
    out_.add(!tuple ? "]" : items.size() == 1 ? ",)" : ")");
  }

  void add_dict(const Dict& dict) {
    out_.add("{");
    for (std::size_t i = 0; i < dict.items.size(); ++i) {
      if (i > 0) out_.add(", ");
      add(dict.items[i].first);
      out_.add(": ");
      add(dict.items[i].second);
    }
    out_.add("}");
  }

  TextBuilder& out_;
};

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, TextBuilder& out) : style_(style), out_(out) {}

  void write(const Value& value, std::size_t depth) {
    const Budget::Level level(out_.budget());
    out_.budget().steps(1);
    if (value.is(Kind::kString)) {
      write_string(value.as_text());
    } else if (value.is_list_or_tuple()) {
      write_array(value.items(), depth);
    } else if (value.is(Kind::kDict)) {
      write_object(value.as_dict(), depth);
    } else {
      out_.add(plain(value));
    }
  }

 private:
  /// For values that are neither strings nor containers.
  static std::string plain(const Value& value) {
    switch (value.kind()) {
      case Kind::kNone:
        return "null";
      case Kind::kBool:
        return value.as_bool() ? "true" : "false";
      case Kind::kInteger:
        return std::to_string(*value.integer());
      case Kind::kFloat:
        if (std::isnan(value.as_float())) return "NaN";
        if (std::isinf(value.as_float())) return value.as_float() < 0 ? "-Infinity" : "Infinity";
        return float_text(value.as_float());
      default:
        throw complaint("found {}, expected a value of JSON", describe(value));
    }
  }

  static std::string escape_of(char32_t c) {
    constexpr std::string_view kCharacters = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
    if (c >= 0x80) return "";
    const std::size_t known = kCharacters.find(static_cast<char>(c));
    if (known != std::string_view::npos) return std::string("\\") + kLetters[known];
    return c < 0x20 ? fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c)) : "";
  }

  void write_string(const Text& text) {
    out_.add("\"");
    out_.add_escaped(text, escape_of);
    out_.add("\"");
  }

  void new_line(std::size_t depth) {
    if (!style_.indent) return;
    out_.add("\n").repeat(Text(*style_.indent), depth);
  }

  void write_array(const std::vector<Value>& items, std::size_t depth) {
    out_.add("[");
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.add(style_.between);
      new_line(depth + 1);
      write(items[i], depth + 1);
    }
    if (!items.empty()) new_line(depth);
    out_.add("]");
  }

  void write_object(const Dict& dict, std::size_t depth) {
    out_.add("{");
    for (std::size_t i = 0; i < dict.items.size(); ++i) {
      if (i > 0) out_.add(style_.between);
      new_line(depth + 1);
      const auto& [key, value] = dict.items[i];
      write_string(key.is(Kind::kString) ? key.as_text() : Text(plain(key)));
      out_.add(style_.after_key);
      write(value, depth + 1);
    }
    if (!dict.items.empty()) new_line(depth);
    out_.add("}");
  }

  const JsonStyle& style_;
  TextBuilder& out_;
};

}  // namespace

void print(const Value& value, TextBuilder& out) {
  if (value.is(Kind::kUndefined)) return;
  if (value.is(Kind::kString)) {
    out.add(value.as_text());
  } else {
    Representation(out).add(value);
  }
}

String to_string(const Value& value, Budget& budget) {
  if (value.is(Kind::kString)) return value.as_string();
  TextBuilder out(budget);
  print(value, out);
  return {std::make_shared<const Text>(out.finish())};
}

void write_json(const Value& value, const JsonStyle& style, TextBuilder& out) {
  JsonWriter(style, out).write(value, 0);
}

}  // namespace turnbench::jinja
