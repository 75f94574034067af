#include <algorithm>

#include "common/python_text.h"
#include "common/text.h"
#include "inference/jinja/access.h"
#include "inference/jinja/arithmetic.h"
#include "inference/jinja/compare.h"
#include "inference/jinja/library.h"
#include "inference/jinja/print.h"
#include "inference/jinja/text_format.h"
#include "inference/jinja/text_functions.h"
#include "inference/jinja/to_json.h"

namespace turnbench::jinja {
namespace {

/// A filter that makes another text of the value's.
template <std::string change(std::string_view)>
Value changed(const Call& call) {
  return call.make(change(call.self_text().text->bytes()));
}

/// A filter that refuses what is no string.
const Text& string_in(const Call& call) {
  const Value& self = call.self();
  if (self.is(Kind::kString)) return self.as_text();
  if (self.is(Kind::kUndefined)) refuse_undefined(self);
  throw complaint("found {}, expected a string", describe(self));
}

Value trim_filter(const Call& call) {
  const String text = call.self_text();
  return substring(strip(*text.text, call.maybe_text(0), true, true), call.budget);
}

Value replace_filter(const Call& call) {
  const String from = to_string(call.get(0), call.budget), to = to_string(call.get(1), call.budget);
  const std::int64_t most = call.get(2).is(Kind::kNone) ? -1 : call.integer(2, -1);
  return replace(*call.self_text().text, from.text->bytes(), *to.text, most, call.budget);
}

Value indent_filter(const Call& call) {
  Text indent(std::string(4, ' '));
  if (call.has(0) && call.get(0).is(Kind::kString)) {
    indent = call.text(0);
  } else if (call.has(0)) {
    TextBuilder spaces(call.budget);
    const std::int64_t width = std::max<std::int64_t>(call.integer(0, 4), 0);
    indent = spaces.repeat(Text(" "), static_cast<std::size_t>(width)).finish();
  }
  TextBuilder ended(call.budget);
  const Text text = ended.add(string_in(call)).add("\n").finish();
  const bool first = call.truth(1, false), blank = call.truth(2, false);
  TextBuilder out(call.budget);
  if (first) out.add(indent);
  bool begun = false;
  for (const Slice& line : split_lines(text, false)) {
    if (begun) out.add("\n");
    if (begun && (blank || line.begin < line.end)) out.add(indent);
    out.add(line);
    begun = true;
  }
  return out.finish();
}

Value truncate_filter(const Call& call) {
  if (call.self().is(Kind::kUndefined)) return call.self();
  const Text& text = string_in(call);
  const Text end = call.has(2) ? call.text(2) : Text("...");
  const auto end_length = static_cast<std::int64_t>(count_code_points(end.bytes()));
  const std::int64_t length = call.integer(0, 255);
  const std::int64_t leeway = call.get(3).is(Kind::kNone) ? 5 : call.integer(3, 5);
  if (length < end_length || leeway < 0) {
    throw complaint("found the length {} and the leeway {}, expected at least {} and 0", length,
                    leeway, end_length);
  }
  const auto size = static_cast<std::int64_t>(count_code_points(text.bytes()));
  if (size - length <= leeway) return call.self();
  Slice kept{&text, 0, offset_of(text.bytes(), static_cast<std::size_t>(length - end_length))};
  if (!call.truth(1, false)) {
    const std::size_t space = kept.bytes().rfind(' ');
    if (space != std::string_view::npos) kept.end = space;
  }
  TextBuilder out(call.budget);
  return out.add(kept).add(end).finish();
}

Value center_filter(const Call& call) {
  Arguments width{{Value(call.integer(0, 80))}, {}};
  const Value text = String{call.self_text().text};
  return call.runtime.call(*find_method(text, "center"), std::move(width));
}

Value wordcount_filter(const Call& call) {
  return Value::size(count_words(call.self_text().text->bytes()));
}

Value format_filter(const Call& call) {
  const Arguments& given = call.more();
  if (!given.values.empty() && !given.named.empty()) {
    throw complaint("found values and names, expected either");
  }
  std::vector<std::pair<Value, Value>> named;
  for (const auto& [name, value] : given.named) named.emplace_back(call.make(name), value);
  const Value values = named.empty() ? Value::tuple(given.values) : Value::dict(std::move(named));
  refuse_safe(call.self());
  return percent_format(*call.self_text().text, values, call.budget);
}

std::string_view entity_of(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '\'':
      return "&#39;";
    case '"':
      return "&#34;";
    default:
      return "";
  }
}

Value escape_filter(const Call& call) {
  const String text = call.self_text();
  if (text.safe) return text;
  TextBuilder out(call.budget);
  const std::string_view bytes = text.text->bytes();
  std::size_t done = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const std::string_view entity = entity_of(bytes[at]);
    if (entity.empty()) continue;
    out.add(Slice{text.text.get(), done, at}).add(entity);
    done = at + 1;
  }
  out.add(Slice{text.text.get(), done, bytes.size()});
  return String{std::make_shared<const Text>(out.finish()), true};
}

Value safe_filter(const Call& call) {
  return String{call.self_text().text, true};
}

Value tojson_filter(const Call& call) {
  JsonStyle style;
  style.ascii = call.truth(0, false);
  style.sort_keys = call.truth(3, false);
  const Value indent = call.get(1);
  if (const auto width = indent.integer()) {
    constexpr std::int64_t kWidest = 1000;
    style.indent =
        std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(*width, 0, kWidest)), ' ');
  } else if (!indent.is(Kind::kNone)) {
    style.indent = std::string(call.text(1).bytes());
  }
  if (style.indent) style.between = ",";
  if (!call.get(2).is(Kind::kNone)) {
    const std::vector<Value> separators = values_of(call.get(2), call.budget);
    if (separators.size() != 2 || !separators[0].is(Kind::kString) ||
        !separators[1].is(Kind::kString)) {
      throw complaint("found {} as separators, expected two strings", describe(call.get(2)));
    }
    style.between = std::string(separators[0].bytes());
    style.behind_key = std::string(separators[1].bytes());
  }
  TextBuilder out(call.budget);
  write_json(call.self(), style, out);
  return out.finish();
}

Value join_filter(const Call& call) {
  const String separator = to_string(call.has(0) ? call.get(0) : Value::text(""), call.budget);
  TextBuilder out(call.budget);
  bool first = true;
  const auto values = iterate(call.self(), call.budget);
  while (const auto value = values->next()) {
    if (!first) out.add(*separator.text);
    print(at_path(*value, call.get(1), None{}, call.budget), out);
    first = false;
  }
  return out.finish();
}

constexpr Function kTextFilters[] = {
    {"trim", "chars?", trim_filter},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", tojson_filter},
    {"join", "d? attribute?", join_filter},
    {"upper", "", changed<python::upper>},
    {"lower", "", changed<python::lower>},
    {"title", "", changed<title_words>},
    {"capitalize", "", changed<capitalize>},
    {"replace", "old new count?", replace_filter},
    {"string", "", [](const Call& c) -> Value { return c.self_text(); }},
    {"indent", "width? first? blank?", indent_filter},
    {"truncate", "length? killwords? end? leeway?", truncate_filter},
    {"center", "width?", center_filter},
    {"wordcount", "", wordcount_filter},
    {"format", "/ * **", format_filter},
    {"escape", "", escape_filter},
    {"e", "", escape_filter},
    {"safe", "", safe_filter},
};

}  // namespace

std::span<const Function> text_filters() {
  return kTextFilters;
}

bool is_left_out(std::string_view filter) {
  static constexpr std::string_view kLeftOut[] = {"filesizeformat", "forceescape", "pprint",
                                                  "random",         "striptags",   "urlencode",
                                                  "urlize",         "wordwrap",    "xmlattr"};
  return std::ranges::find(kLeftOut, filter) != std::end(kLeftOut);
}

}  // namespace turnbench::jinja
