#include "text/jinja/library.h"

#include <algorithm>

#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace turnbench::jinja {
namespace {

constexpr std::int64_t kLongestRange = 100'000;  // the limit of Jinja2's sandbox

const Function* find_in(std::span<const Function> table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &Function::name);
  return found == table.end() ? nullptr : &*found;
}

bool is_among(std::string_view names, std::string_view name) {
  return std::ranges::count(split(names, " "), name) > 0;
}

std::size_t weight_of(const Value& value) {
  return value.is(Kind::kString) ? value.as_text().size() : 0;
}

Value run(Runtime& runtime, const Function& function, const Value& self, Arguments arguments) {
  std::size_t weight = weight_of(self);  // upper bound of the bytes that the function reads
  for (const Value& value : arguments.values) weight += weight_of(value);
  for (const auto& [name, value] : arguments.named) weight += weight_of(value);
  runtime.budget.steps(1);
  runtime.budget.read(weight);
  const Budget::Level level(runtime.budget);
  return function.run(Call(runtime, function, self, std::move(arguments)));
}

/// A function as a value, bound to the value of which it is a method.
class Bound : public Object {
 public:
  Bound(const Function& function, Value self) : function_(function), self_(std::move(self)) {}

  std::string type_name() const override { return "function"; }
  int depth() const override { return self_.depth(); }
  bool is_callable() const override { return true; }
  Value call(Runtime& runtime, Arguments arguments) override {
    return run(runtime, function_, self_, std::move(arguments));
  }

 private:
  const Function& function_;
  Value self_;
};

/// Methods of Python's dict and other types that this library does not implement.
constexpr std::string_view kLeftOutOfDict = "clear copy fromkeys pop popitem setdefault update";
constexpr std::string_view kLeftOut =
    "append as_integer_ratio bit_count bit_length casefold center clear conjugate copy count "
    "denominator encode expandtabs extend find format format_map from_bytes fromhex hex imag index "
    "insert is_integer isalnum isalpha isascii isdecimal isdigit isdisjoint isidentifier islower "
    "isnumeric isprintable isspace istitle isupper ljust maketrans mapping numerator partition pop "
    "real remove removeprefix removesuffix reverse rfind rindex rjust rpartition sort splitlines "
    "start step stop swapcase to_bytes "
    "translate zfill";

// Globals

Value range(const Call& call) {
  const bool one = !call.has(1);
  const std::int64_t start = one ? 0 : call.integer(0, 0);
  const std::int64_t stop = call.integer(one ? 0 : 1, 0), step = call.integer(2, 1);
  if (step == 0) throw complaint("found a range with step 0, expected another step");
  std::vector<Value> items;
  std::int64_t at = start;
  for (bool fits = true; fits && (step < 0 ? at > stop : at < stop);) {
    if (static_cast<std::int64_t>(items.size()) == kLongestRange) {
      throw complaint("found a range of more than {} numbers, expected at most so many",
                      kLongestRange);
    }
    call.budget.elements(1);
    items.push_back(at);
    fits = !__builtin_add_overflow(at, step, &at);
  }
  return Value::sequence("range", std::move(items));
}

Value make_namespace(const Call& call) {
  const auto out = std::make_shared<Namespace>();
  call.runtime.keep(out);
  if (!call.more().values.empty()) throw complaint("found a value, expected names (a=1)");
  for (const auto& [name, value] : call.more().named) out->set(name, value);
  return Value(out);
}

Value raise_exception(const Call& call) {
  const String message = to_string(call.get(0), call.budget);
  throw complaint("found messages that the template refuses (\"{}\"), expected others",
                  printable(shorten(message.text->bytes(), 600)));
}

Value strftime_now(const Call& call) {
  return call.make(format_time(call.runtime.now, call.text(0).bytes()));
}

constexpr Function kGlobals[] = {
    {"range", "/ start stop? step?", range},
    {"namespace", "/ *", make_namespace},
    {"raise_exception", "message", raise_exception},
    {"strftime_now", "format", strftime_now},
};

}  // namespace

Call::Call(Runtime& runtime, const Function& function, const Value& self, Arguments arguments)
    : runtime(runtime), budget(runtime.budget), function_(function), self_(self) {
  bool positional = false, takes_more = false;
  std::size_t used = 0;
  std::vector<Value>& values = arguments.values;
  auto& named = arguments.named;
  for (std::string name : split(function.parameters, " ")) {
    if (name == "/") positional = true;
    if (name == "*") takes_more = true;
    if (name.empty() || name == "/" || name == "*") continue;
    const bool optional = name.ends_with('?');
    if (optional) name.pop_back();
    const auto found = std::find_if(named.begin(), named.end(), [&](const auto& argument) {
      return !positional && argument.first == name;
    });
    if (used < values.size()) {
      if (found != named.end()) {
        throw complaint("found two values for {} of {}, expected one", name, function.name);
      }
      given_.emplace_back(std::move(values[used++]));
    } else if (found != named.end()) {
      given_.emplace_back(std::move(found->second));
      named.erase(found);
    } else if (optional) {
      given_.emplace_back();
    } else {
      throw complaint("found no argument for {}, expected its {}", function.name, name);
    }
  }
  if (used < values.size() && !takes_more) {
    throw complaint("found {} arguments for {}, expected at most {}", values.size(), function.name,
                    used);
  }
  if (!named.empty() && !takes_more) {
    throw complaint("found the argument {} for {}, expected none of that name",
                    printable(shorten(named[0].first, 40)), function.name);
  }
  more_.values.assign(std::make_move_iterator(values.begin() + static_cast<std::ptrdiff_t>(used)),
                      std::make_move_iterator(values.end()));
  more_.named = std::move(named);
}

void Call::refuse(std::size_t i, std::string_view expected) const {
  if (get(i).is(Kind::kUndefined)) refuse_undefined(get(i));
  throw complaint("found {} for {}, expected {}", describe(get(i)), function_.name, expected);
}

const Text& Call::text(std::size_t i) const {
  if (!has(i) || !given_[i]->is(Kind::kString)) refuse(i, "a string");
  return given_[i]->as_text();
}

std::int64_t Call::integer(std::size_t i, std::int64_t fallback) const {
  if (!has(i)) return fallback;
  const auto out = given_[i]->integer();
  if (!out) refuse(i, "an integer");
  return *out;
}

bool Call::truth(std::size_t i) const {
  return has(i) && jinja::truth(*given_[i]);
}

std::optional<std::string_view> Call::maybe_text(std::size_t i) const {
  if (get(i).is(Kind::kNone)) return std::nullopt;
  return text(i).bytes();
}

TextPointer Call::self_text() const {
  return to_string(self_, budget).text;
}

std::vector<Value> Call::self_values() const {
  return values_of(self_, budget);
}

Value Call::make(std::string text) const {
  budget.make(text.size());
  return Text(std::move(text));
}

Value Call::make_list(const std::vector<Slice>& parts) const {
  std::vector<Value> items;
  for (const Slice& part : parts) {
    budget.elements(1);
    items.push_back(substring(part, budget));
  }
  return Value::list(std::move(items));
}

Value call(Runtime& runtime, const Value& callee, Arguments arguments) {
  if (callee.is(Kind::kUndefined)) refuse_undefined(callee);
  if (!callee.is(Kind::kObject) || !callee.as_object()->is_callable()) {
    throw complaint("found {}, expected something that can be called", describe(callee));
  }
  // Keeps it alive, because the callee may be replaced during the call.
  std::shared_ptr<Object> object;
  object = callee.as_object();
  return object->call(runtime, std::move(arguments));
}

Value filter(Runtime& runtime, std::string_view name, const Value& value, Arguments arguments) {
  if (name != "safe" && name != "string") refuse_marked(value);
  for (const Value& argument : arguments.values) refuse_marked(argument);
  for (const auto& [parameter, argument] : arguments.named) refuse_marked(argument);
  if (const Function* function = find_in(filters(), name)) {
    return run(runtime, *function, value, std::move(arguments));
  }
  throw complaint("found the filter {}, expected one that this library has",
                  printable(shorten(name, 40)));
}

bool test(Runtime& runtime, std::string_view name, const Value& value, Arguments arguments) {
  if (const Function* function = find_in(value_tests(), name)) {
    return truth(run(runtime, *function, value, std::move(arguments)));
  }
  throw complaint("found the test {}, expected one that this library has",
                  printable(shorten(name, 40)));
}

std::optional<Value> find_method(const Value& value, std::string_view name) {
  if (const Function* found = find_in(methods_of(value.kind()), name)) {
    refuse_marked(value);
    return Value(std::make_shared<Bound>(*found, value));
  }
  if (name.starts_with("__")) {
    return Value::undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe",
                                        shorten(name, 40), type_name(value)));
  }
  if (is_among(value.is(Kind::kDict) ? kLeftOutOfDict : kLeftOut, name)) {
    throw complaint("found {}.{}, expected a method that this library has", type_name(value), name);
  }
  return std::nullopt;
}

std::optional<Value> find_global(std::string_view name) {
  if (const Function* found = find_in(kGlobals, name)) {
    return Value(std::make_shared<Bound>(*found, Value()));
  }
  if (is_among("cycler dict joiner lipsum self", name)) {
    throw complaint("found {}, expected a function that this library has", name);
  }
  return std::nullopt;
}

}  // namespace turnbench::jinja
