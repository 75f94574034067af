#include "text/jinja/value.h"

#include <algorithm>

#include "common/text.h"

namespace turnbench::jinja {
namespace {

constexpr int kDeepest = 280;  // JSON may have 256 levels

int one_over(int depth) {
  if (depth >= kDeepest) {
    throw complaint("found values nested {} deep, expected at most {} levels", depth + 1, kDeepest);
  }
  return depth + 1;
}

}  // namespace

int depth_over(const std::vector<Value>& items) {
  int deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, item.depth());
  return one_over(deepest);
}

Value Value::undefined(std::string why) {
  return Undefined{std::make_shared<const std::string>(std::move(why))};
}

Value Value::sequence(std::string_view type, std::vector<Value> items) {
  const int depth = depth_over(items);
  return Value(std::make_shared<const Sequence>(Sequence{type, std::move(items), depth}));
}

Value Value::dict(std::vector<std::pair<Value, Value>> items) {
  int deepest = 0;
  for (const auto& [key, item] : items) deepest = std::max({deepest, key.depth(), item.depth()});
  const int depth = one_over(deepest);
  return Value(std::make_shared<const Dict>(Dict{std::move(items), depth}));
}

std::optional<std::int64_t> Value::integer() const {
  if (is(Kind::kBool)) return as_bool() ? 1 : 0;
  if (is(Kind::kInteger)) return std::get<std::int64_t>(value_);
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (is(Kind::kFloat)) return as_float();
  if (const auto whole = integer()) return static_cast<double>(*whole);
  return std::nullopt;
}

int Value::depth() const {
  if (is(Kind::kSequence)) return as_sequence().depth;
  if (is(Kind::kDict)) return as_dict().depth;
  return is(Kind::kObject) ? as_object()->depth() : 0;
}

std::string type_name(const Value& value) {
  constexpr std::string_view kNames[] = {"Undefined", "NoneType", "bool", "int",
                                         "float",     "str",      "",     "dict"};
  if (value.is(Kind::kObject)) return value.as_object()->type_name();
  if (value.is(Kind::kSequence)) return std::string(value.as_sequence().type);
  return std::string(kNames[static_cast<std::size_t>(value.kind())]);
}

std::string describe(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: {
      const auto& why = value.as_undefined().why;
      return why ? printable(shorten(*why, 200)) : "an undefined value";
    }
    case Kind::kNone:
      return "none";
    case Kind::kBool:
      return value.as_bool() ? "true" : "false";
    case Kind::kInteger:
      return fmt::format("the integer {}", *value.integer());
    case Kind::kFloat:
      return fmt::format("the float {}", value.as_float());
    case Kind::kString:
      return fmt::format("the string \"{}\"", printable(shorten(value.bytes(), 40)));
    case Kind::kDict:
      return fmt::format("a dict of {}", value.as_dict().items.size());
    case Kind::kSequence:
      return fmt::format("a {} of {}", type_name(value), value.items().size());
    case Kind::kObject:
      return "a value of type " + type_name(value);
  }
  return "";
}

void refuse_undefined(const Value& value) {
  throw complaint("found an undefined value ({}), expected a defined one", describe(value));
}

Value Object::call(Runtime&, Arguments) {
  throw complaint("found a value of type {}, expected one that can be called", type_name());
}

}  // namespace turnbench::jinja
