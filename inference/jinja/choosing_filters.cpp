#include "common/text.h"
#include "inference/jinja/access.h"
#include "inference/jinja/compare.h"
#include "inference/jinja/library.h"

namespace turnbench::jinja {
namespace {

/// A generator of what `step` makes of each element: none leaves the element out.  As in Jinja2
/// nothing is computed before it is asked for.
Value generated(const Call& call, std::function<std::optional<Value>(const Value&)> step) {
  std::shared_ptr<Iterator> source;
  Iterator::Next next = [self = call.self(), &budget = call.budget, source,
                         step = std::move(step)]() mutable -> std::optional<Value> {
    if (!source) source = truth(self) ? iterate(self, budget) : iterator_over({});
    while (const auto value = source->next()) {
      budget.steps(1);
      if (auto out = step(*value)) return out;
    }
    return std::nullopt;
  };
  const std::shared_ptr<Object> out =
      std::make_shared<Iterator>(std::move(next), call.self().depth());
  return Value(out);
}

/// Takes the first of the values that were given.
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

Value map_filter(const Call& call) {
  Arguments rest = call.more();
  Runtime& runtime = call.runtime;
  if (const auto filter = take_first(rest)) {
    return generated(call, [&runtime, filter = *filter, rest](const Value& value) {
      return std::optional(runtime.filter(name_in(filter), value, rest));
    });
  }
  Value path, fallback = None{};
  std::string unknown;
  for (const auto& [name, value] : rest.named) {
    if (name != "attribute" && name != "default") unknown = printable(shorten(name, 40));
    (name == "attribute" ? path : fallback) = value;
  }
  return generated(call, [&runtime, path, fallback, unknown](const Value& value) {
    if (path.is(Kind::kUndefined) || !unknown.empty()) {
      throw complaint("found the arguments of map to be {}, expected a filter or an attribute",
                      unknown.empty() ? "none" : unknown);
    }
    return std::optional(at_path(value, path, fallback, runtime.budget));
  });
}

/// select, reject, selectattr, rejectattr: the elements, or their attribute, that a test `takes`.
Value chosen(const Call& call, bool takes, bool of_attribute) {
  Arguments rest = call.more();
  Runtime& runtime = call.runtime;
  const auto path = of_attribute ? take_first(rest) : Value(None{});
  const auto test = take_first(rest);
  return generated(call, [&runtime, takes, path, test, rest](const Value& value) {
    if (!path) throw complaint("found no argument, expected the name of an attribute");
    const Value looked_at = at_path(value, *path, None{}, runtime.budget);
    const bool holds = test ? runtime.test(name_in(*test), looked_at, rest) : truth(looked_at);
    return holds == takes ? std::optional(value) : std::nullopt;
  });
}

constexpr Function kChoosingFilters[] = {
    {"map", "/ * **", map_filter},
    {"select", "/ * **", [](const Call& c) { return chosen(c, true, false); }},
    {"reject", "/ * **", [](const Call& c) { return chosen(c, false, false); }},
    {"selectattr", "/ * **", [](const Call& c) { return chosen(c, true, true); }},
    {"rejectattr", "/ * **", [](const Call& c) { return chosen(c, false, true); }},
};

}  // namespace

std::span<const Function> choosing_filters() {
  return kChoosingFilters;
}

}  // namespace turnbench::jinja
