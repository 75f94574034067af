#include <algorithm>
#include <cmath>

#include "common/python_text.h"
#include "text/jinja/library.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace turnbench::jinja {
namespace {

// Texts

/// A filter that transforms the value's text.
template <std::string change(std::string_view)>
Value changed(const Call& call) {
  return call.make(change(call.self_text()->bytes()));
}

Value trim_filter(const Call& call) {
  const TextPointer text = call.self_text();
  return substring(strip(*text, call.maybe_text(0), true, true), call.budget);
}

Value replace_filter(const Call& call) {
  const String from = to_string(call.get(0), call.budget), to = to_string(call.get(1), call.budget);
  const std::int64_t most = call.get(2).is(Kind::kNone) ? -1 : call.integer(2, -1);
  return replace(*call.self_text(), from.text->bytes(), *to.text, most, call.budget);
}

Value indent_filter(const Call& call) {
  const Value& self = call.self();
  if (self.is(Kind::kUndefined)) refuse_undefined(self);
  if (!self.is(Kind::kString)) throw complaint("found {}, expected a string", describe(self));
  Text indent;
  if (call.get(0).is(Kind::kString)) {
    indent = call.text(0);
  } else {
    const auto width = static_cast<std::size_t>(std::max<std::int64_t>(call.integer(0, 4), 0));
    indent = TextBuilder(call.budget).repeat(Text(" "), width).finish();
  }
  const Text text = TextBuilder(call.budget).add(self.as_text()).add("\n").finish();
  const bool first = call.truth(1), blank = call.truth(2);
  TextBuilder out(call.budget);
  if (first) out.add(indent);
  bool begun = false;
  for (const Slice& line : split_lines(text)) {
    if (begun) out.add("\n");
    if (begun && (blank || line.begin < line.end)) out.add(indent);
    out.add(line);
    begun = true;
  }
  return out.finish();
}

Value tojson_filter(const Call& call) {
  if (call.truth(0)) throw complaint("found ensure_ascii=true, expected false");
  JsonStyle style;
  const Value indent = call.get(1);
  if (const auto width = indent.integer()) {
    constexpr std::int64_t kWidest = 1000;
    if (*width > kWidest) {
      throw complaint("found an indent of {}, expected at most {}", *width, kWidest);
    }
    style.indent = std::string(static_cast<std::size_t>(std::max<std::int64_t>(*width, 0)), ' ');
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
    style.after_key = std::string(separators[1].bytes());
  }
  TextBuilder out(call.budget);
  write_json(call.self(), style, out);
  return out.finish();
}

Value join_filter(const Call& call) {
  const String separator = to_string(call.has(0) ? call.get(0) : Value::text(""), call.budget);
  TextBuilder out(call.budget);
  bool first = true;
  for (const Value& value : call.self_values()) {
    if (!first) out.add(*separator.text);
    print(at_path(value, call.get(1), None{}, call.budget), out);
    first = false;
  }
  return out.finish();
}

// Numbers

/// Python's `float(text)`; rejects underscores between digits.
std::optional<double> float_of(std::string_view text) {
  std::string number;  // with ASCII digits
  text = python::strip(text);
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    const int digit = python::decimal_digit(c);
    append_utf8(number, digit >= 0 ? static_cast<char32_t>('0' + digit) : c);
  }
  if (number.find('_') != std::string::npos &&
      number.find_first_not_of("0123456789.eE+-_") == std::string::npos) {
    throw complaint("found the number \"{}\", expected no underscores", shorten(number, 40));
  }
  if (number.find('(') != std::string::npos || number.starts_with("+-")) return std::nullopt;
  return python::parse_float(std::string_view(number).substr(number.starts_with('+') ? 1 : 0));
}

Value int_filter(const Call& call) {
  const Value& self = call.self();
  const Value fallback = call.has(0) ? call.get(0) : Value(std::int64_t{0});
  if (self.is(Kind::kUndefined)) refuse_undefined(self);
  if (const auto whole = self.integer()) return *whole;
  std::optional<double> number = self.number();
  if (self.is(Kind::kString)) {
    if (const auto digits = python::parse_int(self.bytes())) {
      if (const auto whole = parse_number<std::int64_t>(*digits)) return *whole;
      throw complaint("found \"{}\", expected an integer of 64 bits", shorten(*digits, 40));
    }
    number = float_of(self.bytes());
    if (number && std::isinf(*number)) return fallback;
  }
  if (!number || std::isnan(*number)) return fallback;
  if (!(std::fabs(*number) < 9.2e18)) {
    throw complaint("found the float {}, expected one that is an integer of 64 bits", *number);
  }
  return static_cast<std::int64_t>(*number);
}

Value float_filter(const Call& call) {
  const Value& self = call.self();
  if (self.is(Kind::kUndefined)) refuse_undefined(self);
  const auto number = self.is(Kind::kString) ? float_of(self.bytes()) : self.number();
  if (number) return *number;
  return call.has(0) ? call.get(0) : Value(0.0);
}

Value abs_filter(const Call& call) {
  const auto number = call.self().number();
  if (number && *number >= 0 && call.self().integer()) return *call.self().integer();
  return call.self().is(Kind::kFloat) ? Value(std::fabs(*number)) : negative(call.self());
}

// Lists

using Pair = std::pair<Value, Value>;  // a key and its value

/// A value of Python's type generator.  Unlike in Jinja2, its values are computed immediately.
Value generator(std::vector<Value> values) {
  return Value(std::make_shared<Iterator>(std::move(values)));
}

/// The key for comparisons of a value: strings are compared without regard to case, unless
/// `case_sensitive`.
Value key_of(const Call& call, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is(Kind::kString)) return value;
  return call.make(python::lower(value.bytes()));
}

/// The values in the order of their keys.  Like Python, requires a number for the parameter
/// `reverse`.
Value sorted(const Call& call, std::vector<Pair> pairs, std::size_t reverse) {
  const bool backwards = call.integer(reverse, 0) != 0;
  std::stable_sort(pairs.begin(), pairs.end(), [&](const Pair& a, const Pair& b) {
    return order(backwards ? b.first : a.first, backwards ? a.first : b.first, call.budget) < 0;
  });
  std::vector<Value> out;
  for (Pair& pair : pairs) out.push_back(std::move(pair.second));
  return Value::list(std::move(out));
}

std::size_t length_of(const Call& call) {
  if (const auto count = length(call.self())) return *count;
  throw complaint("found {}, expected a value with a length", describe(call.self()));
}

Value first_filter(const Call& call) {
  const auto first = iterate(call.self(), call.budget)->next();
  return first ? *first : Value::undefined("no first item, the sequence was empty");
}

Value last_filter(const Call& call) {
  length_of(call);  // rejects generators, which cannot be reversed
  const std::vector<Value> values = call.self_values();
  return values.empty() ? Value::undefined("no last item, the sequence was empty") : values.back();
}

Value reverse_filter(const Call& call) {
  const Value& self = call.self();
  if (self.is(Kind::kString)) return slice(self, None{}, None{}, std::int64_t{-1}, call.budget);
  std::vector<Value> values = call.self_values();
  std::ranges::reverse(values);
  return length(self) ? generator(std::move(values)) : Value::list(std::move(values));
}

Value sort_filter(const Call& call) {
  if (call.get(2).is(Kind::kString) && call.text(2).bytes().find(',') != std::string_view::npos) {
    throw complaint("found {}, expected one attribute", describe(call.get(2)));
  }
  std::vector<Pair> pairs;
  for (const Value& value : call.self_values()) {
    const Value key = at_path(value, call.get(2), None{}, call.budget);
    pairs.emplace_back(key_of(call, key, call.truth(1)), value);
  }
  return sorted(call, std::move(pairs), 0);
}

Value dictsort_filter(const Call& call) {
  if (!call.self().is(Kind::kDict)) {
    throw complaint("found {}, expected a dict", describe(call.self()));
  }
  const std::string_view by = call.has(1) ? call.text(1).bytes() : "key";
  if (by != "key" && by != "value") {
    throw complaint("found \"{}\", expected \"key\" or \"value\"", printable(shorten(by, 40)));
  }
  std::vector<Pair> pairs;
  const Value items = elements_of(call, "dict_items");
  for (const Value& item : items.items()) {
    const Value& key = by == "key" ? item.items().front() : item.items().back();
    pairs.emplace_back(key_of(call, key, call.truth(0)), item);
  }
  return sorted(call, std::move(pairs), 2);
}

Value unique_filter(const Call& call) {
  std::vector<Value> seen, out;
  for (const Value& value : call.self_values()) {
    Value key = key_of(call, at_path(value, call.get(1), None{}, call.budget), call.truth(0));
    require_hashable(key);
    const auto same = [&](const Value& other) { return equal(key, other, call.budget); };
    if (std::ranges::any_of(seen, same)) continue;
    seen.push_back(std::move(key));
    out.push_back(value);
  }
  return generator(std::move(out));
}

Value items_filter(const Call& call) {
  if (call.self().is(Kind::kUndefined)) return generator({});
  if (call.self().is(Kind::kDict)) return generator(elements_of(call, "dict_items").items());
  throw complaint("found {}, expected a dict", describe(call.self()));
}

Value default_filter(const Call& call) {
  const Value& self = call.self();
  if (!self.is(Kind::kUndefined) && (!call.truth(1) || truth(self))) return self;
  return call.has(0) ? call.get(0) : Value::text("");
}

// map, select and the like

/// Removes and returns the first positional argument.
std::optional<Value> take_first(Arguments& arguments) {
  if (arguments.values.empty()) return std::nullopt;
  Value out = std::move(arguments.values.front());
  arguments.values.erase(arguments.values.begin());
  return out;
}

std::string name_in(const Value& value) {
  if (value.is(Kind::kString)) return std::string(value.bytes());
  throw complaint("found {}, expected the name of a filter or test", describe(value));
}

/// The values; empty if the value is false.
std::vector<Value> values_if_any(const Call& call) {
  return truth(call.self()) ? call.self_values() : std::vector<Value>();
}

Value map_filter(const Call& call) {
  Arguments rest = call.more();
  std::vector<Value> out;
  const std::vector<Value> values = values_if_any(call);
  if (values.empty()) return generator({});  // even with invalid arguments
  if (const auto name = take_first(rest)) {
    for (const Value& value : values) {
      out.push_back(filter(call.runtime, name_in(*name), value, rest));
    }
    return generator(std::move(out));
  }
  std::optional<Value> path;
  Value fallback = None{};
  for (const auto& [name, value] : rest.named) {
    if (name == "attribute") path = value;
    if (name == "default") fallback = value;
    if (name != "attribute" && name != "default") path = std::nullopt;
  }
  if (!path) throw complaint("found no filter and no attribute for map, expected one of them");
  for (const Value& value : values) {
    out.push_back(at_path(value, *path, fallback, call.budget));
  }
  return generator(std::move(out));
}

/// select, reject, selectattr, rejectattr: the elements for which the value, or an attribute,
/// passes a test or does not.
Value chosen(const Call& call, bool passes, bool of_attribute) {
  Arguments rest = call.more();
  const std::vector<Value> values = values_if_any(call);
  if (values.empty()) return generator({});
  const auto path = of_attribute ? take_first(rest) : Value(None{});
  if (!path) throw complaint("found no argument, expected the name of an attribute");
  const auto name = take_first(rest);
  std::vector<Value> out;
  for (const Value& value : values) {
    const Value looked_at = at_path(value, *path, None{}, call.budget);
    const bool holds =
        name ? test(call.runtime, name_in(*name), looked_at, rest) : truth(looked_at);
    if (holds == passes) out.push_back(value);
  }
  return generator(std::move(out));
}

constexpr Function kFilters[] = {
    {"trim", "chars?", trim_filter},
    {"tojson", "ensure_ascii? indent? separators?", tojson_filter},
    {"join", "d? attribute?", join_filter},
    {"upper", "", changed<python::upper>},
    {"lower", "", changed<python::lower>},
    {"title", "", changed<title_words>},
    {"capitalize", "", changed<capitalize>},
    {"replace", "old new count?", replace_filter},
    {"indent", "width? first? blank?", indent_filter},
    {"string", "", [](const Call& c) -> Value { return to_string(c.self(), c.budget); }},
    {"safe", "",
     [](const Call& c) -> Value {
       return String{c.self_text(), true};
     }},
    {"int", "default?", int_filter},
    {"float", "default?", float_filter},
    {"abs", "", abs_filter},
    {"length", "", [](const Call& c) { return Value::size(length_of(c)); }},
    {"count", "", [](const Call& c) { return Value::size(length_of(c)); }},
    {"default", "default_value? boolean?", default_filter},
    {"d", "default_value? boolean?", default_filter},
    {"first", "", first_filter},
    {"last", "", last_filter},
    {"list", "", [](const Call& c) { return Value::list(c.self_values()); }},
    {"items", "", items_filter},
    {"reverse", "", reverse_filter},
    {"sort", "reverse? case_sensitive? attribute?", sort_filter},
    {"dictsort", "case_sensitive? by? reverse?", dictsort_filter},
    {"unique", "case_sensitive? attribute?", unique_filter},
    {"map", "/ *", map_filter},
    {"select", "/ *", [](const Call& c) { return chosen(c, true, false); }},
    {"reject", "/ *", [](const Call& c) { return chosen(c, false, false); }},
    {"selectattr", "/ *", [](const Call& c) { return chosen(c, true, true); }},
    {"rejectattr", "/ *", [](const Call& c) { return chosen(c, false, true); }},
};

}  // namespace

std::span<const Function> filters() {
  return kFilters;
}

}  // namespace turnbench::jinja
