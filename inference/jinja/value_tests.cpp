#include "common/text.h"
#include "inference/jinja/access.h"
#include "inference/jinja/arithmetic.h"
#include "inference/jinja/compare.h"
#include "inference/jinja/library.h"
#include "inference/jinja/text_functions.h"

namespace turnbench::jinja {
namespace {

template <Kind kind>
Value is_kind(const Call& call) {
  return call.self().is(kind);
}

template <bool which>
Value is_bool(const Call& call) {
  return call.self().is(Kind::kBool) && call.self().as_bool() == which;
}

bool is_multiple(const Call& call, const Value& of, std::int64_t rest) {
  return equal(calculate(Operator::kModulo, call.self(), of, call.budget), rest, call.budget);
}

Value is_equal(const Call& call) {
  return equal(call.self(), call.get(0), call.budget);
}

Value is_unequal(const Call& call) {
  return !equal(call.self(), call.get(0), call.budget);
}

std::partial_ordering order_of(const Call& call) {
  return order(call.self(), call.get(0), call.budget);
}

Value is_less(const Call& call) {
  return order_of(call) < 0;
}
Value is_at_most(const Call& call) {
  return order_of(call) <= 0;
}
Value is_greater(const Call& call) {
  return order_of(call) > 0;
}
Value is_at_least(const Call& call) {
  return order_of(call) >= 0;
}

Value is_sequence(const Call& call) {
  const Value& self = call.self();
  if (self.is(Kind::kObject)) return type_name(self) == "range";
  return length(self).has_value();
}

Value is_callable(const Call& call) {
  const Value& self = call.self();
  return self.is(Kind::kUndefined) || (self.is(Kind::kObject) && self.as_object()->is_callable());
}

/// `is`: values that are one in memory; plain ones that are equal and of one type.
Value is_same(const Call& call) {
  const Value &a = call.self(), other = call.get(0);
  if (a.kind() != other.kind()) return false;
  const bool plain = !a.is_sequence() && !a.is(Kind::kDict) && !a.is(Kind::kObject);
  return plain ? equal(a, other, call.budget) : a.is_same(other);
}

Value is_known_filter(const Call& call) {
  const bool text = call.self().is(Kind::kString);
  return text && (find_filter(call.self().bytes()) != nullptr || is_left_out(call.self().bytes()));
}

Value is_known_test(const Call& call) {
  return call.self().is(Kind::kString) && find_test(call.self().bytes()) != nullptr;
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
    {"callable", "", is_callable},
    {"odd", "", [](const Call& c) -> Value { return is_multiple(c, std::int64_t{2}, 1); }},
    {"even", "", [](const Call& c) -> Value { return is_multiple(c, std::int64_t{2}, 0); }},
    {"divisibleby", "num", [](const Call& c) -> Value { return is_multiple(c, c.get(0), 0); }},
    {"upper", "", [](const Call& c) -> Value { return is_upper(c.self_text().text->bytes()); }},
    {"lower", "", [](const Call& c) -> Value { return is_lower(c.self_text().text->bytes()); }},
    {"in", "seq", [](const Call& c) -> Value { return contains(c.get(0), c.self(), c.budget); }},
    {"sameas", "other", is_same},
    {"escaped", "",
     [](const Call& c) -> Value {
       return c.self().is(Kind::kString) && c.self().as_string().safe;
     }},
    {"filter", "", is_known_filter},
    {"test", "", is_known_test},
    {"equalto", "/ b", is_equal},
    {"eq", "/ b", is_equal},
    {"==", "/ b", is_equal},
    {"ne", "/ b", is_unequal},
    {"!=", "/ b", is_unequal},
    {"lt", "/ b", is_less},
    {"lessthan", "/ b", is_less},
    {"<", "/ b", is_less},
    {"le", "/ b", is_at_most},
    {"<=", "/ b", is_at_most},
    {"gt", "/ b", is_greater},
    {"greaterthan", "/ b", is_greater},
    {">", "/ b", is_greater},
    {"ge", "/ b", is_at_least},
    {">=", "/ b", is_at_least},
};

}  // namespace

std::span<const Function> value_tests() {
  return kTests;
}

}  // namespace turnbench::jinja
