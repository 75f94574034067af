#include <algorithm>

#include "common/python_text.h"
#include "text/jinja/library.h"
#include "text/jinja/operators.h"

namespace turnbench::jinja {
namespace {

const Text& self_of(const Call& call) {
  return call.self().as_text();
}

Value stripped(const Call& call, bool left, bool right) {
  return substring(strip(self_of(call), call.maybe_text(0), left, right), call.budget);
}

Value splitted(const Call& call, bool from_right) {
  const auto separator = call.maybe_text(0);
  const std::int64_t most = call.integer(1, -1);
  if (separator && separator->empty()) {
    throw complaint("found an empty separator, expected some characters");
  }
  if (!from_right || (!separator && most < 0)) {
    return call.make_list(split_text(self_of(call), separator, most));
  }
  if (!separator) throw complaint("found rsplit at white space, expected a separator");
  return call.make_list(split_text_from_right(self_of(call), *separator, most));
}

/// Whether the text starts or ends with the first parameter, or with one of its elements if it is a
/// tuple.
Value has_end(const Call& call, bool front) {
  const Value parts = call.get(0).is_sequence("tuple") ? call.get(0) : Value::tuple({call.get(0)});
  for (const Value& part : parts.items()) {
    if (part.is(Kind::kUndefined)) refuse_undefined(part);
    if (part.is(Kind::kString)) continue;
    throw complaint("found {}, expected a string or a tuple of strings", describe(part));
  }
  const std::string_view text = self_of(call).bytes();
  return std::ranges::any_of(parts.items(), [&](const Value& part) {
    return front ? text.starts_with(part.bytes()) : text.ends_with(part.bytes());
  });
}

Value joined(const Call& call) {
  TextBuilder out(call.budget);
  bool first = true;
  for (const Value& part : values_of(call.get(0), call.budget)) {
    if (part.is(Kind::kUndefined)) refuse_undefined(part);
    if (!part.is(Kind::kString)) {
      throw complaint("found {} to join, expected strings", describe(part));
    }
    if (!first) out.add(self_of(call));
    out.add(part.as_text());
    first = false;
  }
  return out.finish();
}

constexpr Function kTextMethods[] = {
    {"strip", "/ chars?", [](const Call& c) { return stripped(c, true, true); }},
    {"lstrip", "/ chars?", [](const Call& c) { return stripped(c, true, false); }},
    {"rstrip", "/ chars?", [](const Call& c) { return stripped(c, false, true); }},
    {"split", "sep? maxsplit?", [](const Call& c) { return splitted(c, false); }},
    {"rsplit", "sep? maxsplit?", [](const Call& c) { return splitted(c, true); }},
    {"startswith", "/ prefix", [](const Call& c) { return has_end(c, true); }},
    {"endswith", "/ suffix", [](const Call& c) { return has_end(c, false); }},
    {"replace", "/ old new count?",
     [](const Call& c) -> Value {
       return replace(self_of(c), c.text(0).bytes(), c.text(1), c.integer(2, -1), c.budget);
     }},
    {"join", "/ parts", joined},
    {"upper", "", [](const Call& c) { return c.make(python::upper(self_of(c).bytes())); }},
    {"lower", "", [](const Call& c) { return c.make(python::lower(self_of(c).bytes())); }},
    {"title", "", [](const Call& c) { return c.make(title(self_of(c).bytes())); }},
    {"capitalize", "", [](const Call& c) { return c.make(capitalize(self_of(c).bytes())); }},
};

Value got(const Call& call) {
  const Value* found = find(call.self().as_dict(), call.get(0), call.budget);
  return found == nullptr ? call.get(1) : *found;
}

constexpr Function kDictMethods[] = {
    {"items", "", [](const Call& c) { return elements_of(c, "dict_items"); }},
    {"keys", "", [](const Call& c) { return elements_of(c, "dict_keys"); }},
    {"values", "", [](const Call& c) { return elements_of(c, "dict_values"); }},
    {"get", "/ key default?", got},
};

// Tests

template <Kind kind>
Value is_kind(const Call& call) {
  return call.self().is(kind);
}

template <bool which>
Value is_bool(const Call& call) {
  return call.self().is(Kind::kBool) && call.self().as_bool() == which;
}

bool is_multiple(const Call& call, const Value& of, std::int64_t rest) {
  return equal(calculate("%", call.self(), of, call.budget), rest, call.budget);
}

/// Whether a value has a length, and elements with an index or a key.
Value is_sequence(const Call& call) {
  const Value& self = call.self();
  const bool view = self.is(Kind::kSequence) && self.as_sequence().type.starts_with("dict_");
  return length(self).has_value() && !view;
}

template <char first, char second = '\0'>
Value compares(const Call& call) {
  const char op[] = {first, second, '\0'};
  return compare(op, call.self(), call.get(0), call.budget);
}

constexpr Function kTests[] = {
    {"defined", "", [](const Call& c) -> Value { return !c.self().is(Kind::kUndefined); }},
    {"undefined", "", is_kind<Kind::kUndefined>},
    {"none", "", is_kind<Kind::kNone>},
    {"string", "", is_kind<Kind::kString>},
    {"mapping", "", is_kind<Kind::kDict>},
    {"iterable", "", [](const Call& c) -> Value { return is_iterable(c.self()); }},
    {"sequence", "", is_sequence},
    {"number", "", [](const Call& c) -> Value { return c.self().is_number(); }},
    {"integer", "", is_kind<Kind::kInteger>},
    {"float", "", is_kind<Kind::kFloat>},
    {"boolean", "", is_kind<Kind::kBool>},
    {"true", "", is_bool<true>},
    {"false", "", is_bool<false>},
    {"odd", "", [](const Call& c) -> Value { return is_multiple(c, std::int64_t{2}, 1); }},
    {"even", "", [](const Call& c) -> Value { return is_multiple(c, std::int64_t{2}, 0); }},
    {"divisibleby", "num", [](const Call& c) -> Value { return is_multiple(c, c.get(0), 0); }},
    {"in", "seq", compares<'i', 'n'>},
    {"equalto", "/ b", compares<'=', '='>},
    {"eq", "/ b", compares<'=', '='>},
    {"==", "/ b", compares<'=', '='>},
    {"ne", "/ b", compares<'!', '='>},
    {"!=", "/ b", compares<'!', '='>},
    {"lt", "/ b", compares<'<'>},
    {"<", "/ b", compares<'<'>},
    {"le", "/ b", compares<'<', '='>},
    {"<=", "/ b", compares<'<', '='>},
    {"gt", "/ b", compares<'>'>},
    {">", "/ b", compares<'>'>},
    {"ge", "/ b", compares<'>', '='>},
    {">=", "/ b", compares<'>', '='>},
};

}  // namespace

Value elements_of(const Call& call, std::string_view type) {
  std::vector<Value> out;
  for (const auto& [key, value] : call.self().as_dict().items) {
    call.budget.elements(3);
    out.push_back(type == "dict_items"  ? Value::tuple({key, value})
                  : type == "dict_keys" ? key
                                        : value);
  }
  return Value::sequence(type, std::move(out));
}

std::span<const Function> value_tests() {
  return kTests;
}

std::span<const Function> methods_of(Kind kind) {
  if (kind == Kind::kString) return kTextMethods;
  if (kind == Kind::kDict) return kDictMethods;
  return {};
}

}  // namespace turnbench::jinja
