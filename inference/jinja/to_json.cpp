#include "inference/jinja/to_json.h"

#include <algorithm>
#include <cmath>

#include "common/text.h"
#include "inference/jinja/compare.h"
#include "inference/jinja/print.h"

namespace turnbench::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, TextBuilder& out) : style_(style), out_(out) {}

  void write(const Value& value, std::size_t depth) {
    const Budget::Level level(out_.budget());
    out_.budget().steps(1);
    switch (value.kind()) {
      case Kind::kString:
        write_string(value.as_text());
        return;
      case Kind::kList:
      case Kind::kTuple:
        write_array(value.as_list().items, depth);
        return;
      case Kind::kDict:
        write_object(value.as_dict(), depth);
        return;
      default:
        out_.add(plain(value));
    }
  }

 private:
  /// Of what is neither a string nor a container.
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

  std::string escape_of(char32_t c) const {
    switch (c) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\f':
        return "\\f";
      case '\b':
        return "\\b";
      default:
        break;
    }
    const auto code = static_cast<std::uint32_t>(c);
    if (c < 0x20 || (style_.ascii && c > 0x7E && c < 0x10000 && c != 0x7F)) {
      return fmt::format("\\u{:04x}", code);
    }
    if (!style_.ascii || c < 0x10000) return "";
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10),
                       0xDC00 + ((code - 0x10000) & 0x3FF));
  }

  void write_string(const Text& text) {
    const std::string_view bytes = text.bytes();
    std::size_t done = 0;
    out_.add("\"");
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t here = at;
      const std::string escape = escape_of(next_code_point(bytes, at));
      if (escape.empty()) continue;
      out_.add(Slice{&text, done, here}).add(escape);
      done = at;
    }
    out_.add(Slice{&text, done, bytes.size()}).add("\"");
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
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    if (style_.sort_keys) {
      std::stable_sort(items.begin(), items.end(), [&](const auto* a, const auto* b) {
        return order(a->first, b->first, out_.budget()) < 0;
      });
    }
    out_.add("{");
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.add(style_.between);
      new_line(depth + 1);
      const Value& key = items[i]->first;
      write_string(key.is(Kind::kString) ? key.as_text() : Text(plain(key)));
      out_.add(style_.behind_key);
      write(items[i]->second, depth + 1);
    }
    if (!items.empty()) new_line(depth);
    out_.add("}");
  }

  const JsonStyle& style_;
  TextBuilder& out_;
};

}  // namespace

void write_json(const Value& value, const JsonStyle& style, TextBuilder& out) {
  JsonWriter(style, out).write(value, 0);
}

}  // namespace turnbench::jinja
