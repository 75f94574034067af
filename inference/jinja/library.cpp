#include "inference/jinja/library.h"

#include <algorithm>

#include "common/text.h"
#include "inference/jinja/access.h"
#include "inference/jinja/arithmetic.h"
#include "inference/jinja/compare.h"
#include "inference/jinja/print.h"

namespace turnbench::jinja {
namespace {

/// A function as a value, with the value that it is a method of.
class Bound : public Object {
 public:
  Bound(const Function& function, Value self) : function_(function), self_(std::move(self)) {}

  std::string type_name() const override { return "function"; }
  int depth() const override { return self_.depth(); }
  bool is_callable() const override { return true; }
  Value call(Runtime& runtime, Arguments arguments) override {
    return runtime.run(function_, self_, std::move(arguments));
  }

 private:
  const Function& function_;
  Value self_;
};

const Function* find_in(std::span<const Function> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Function& function) { return function.name == name; });
  return found == table.end() ? nullptr : &*found;
}

/// The bytes that a function may have to read.
std::size_t weight_of(const Value& value) {
  return value.is(Kind::kString) ? value.as_text().size() : 0;
}

bool would_change(Kind kind, std::string_view name) {
  static constexpr std::string_view kOfDicts[] = {"clear", "pop", "popitem", "setdefault",
                                                  "update"};
  static constexpr std::string_view kOfLists[] = {"append", "clear",  "extend",  "insert",
                                                  "pop",    "remove", "reverse", "sort"};
  if (kind == Kind::kDict) return std::ranges::find(kOfDicts, name) != std::end(kOfDicts);
  return kind == Kind::kList && std::ranges::find(kOfLists, name) != std::end(kOfLists);
}

/// What Python's types have and this library leaves out.
bool lacks_method(Kind kind, std::string_view name) {
  static constexpr std::string_view kOfStrings[] = {
      "casefold",    "encode",  "expandtabs", "format_map", "isidentifier",
      "isprintable", "istitle", "maketrans",  "swapcase",   "translate"};
  static constexpr std::string_view kOfNumbers[] = {
      "as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator",
      "from_bytes",       "fromhex",   "hex",        "imag",      "is_integer",
      "numerator",        "real",      "to_bytes"};
  if (kind == Kind::kString) return std::ranges::find(kOfStrings, name) != std::end(kOfStrings);
  if (kind == Kind::kDict) return name == "fromkeys";
  const bool number = kind == Kind::kInteger || kind == Kind::kFloat || kind == Kind::kBool;
  return number && std::ranges::find(kOfNumbers, name) != std::end(kOfNumbers);
}

}  // namespace

Call::Call(Runtime& runtime, const Function& function, const Value& self, Arguments arguments)
    : runtime(runtime), budget(runtime.budget), function_(function), self_(self) {
  bool positional = false, takes_values = false, takes_names = false;
  std::size_t used = 0;
  std::vector<Value>& values = arguments.values;
  auto& named = arguments.named;
  for (std::string name : split(function.parameters, " ")) {
    if (name == "/") positional = true;
    if (name == "*") takes_values = true;
    if (name == "**") takes_names = true;
    if (name.empty() || name == "/" || name[0] == '*') continue;
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
  if (used < values.size() && !takes_values) {
    throw complaint("found {} arguments for {}, expected at most {}", values.size(), function.name,
                    used);
  }
  if (!named.empty() && !takes_names) {
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

bool Call::truth(std::size_t i, bool fallback) const {
  return has(i) ? jinja::truth(*given_[i]) : fallback;
}

std::optional<std::string_view> Call::maybe_text(std::size_t i) const {
  if (get(i).is(Kind::kNone)) return std::nullopt;
  return text(i).bytes();
}

String Call::self_text() const {
  return to_string(self_, budget);
}

std::vector<Value> Call::self_values() const {
  return values_of(self_, budget);
}

Value Call::make(std::string text) const {
  budget.make(text.size());
  return Text(std::move(text));
}

Runtime::~Runtime() {
  for (const auto& object : kept_) object->forget();
}

std::shared_ptr<Object> Runtime::keep(std::shared_ptr<Object> object) {
  budget.elements(2);
  kept_.push_back(object);
  return object;
}

Value Runtime::call(const Value& callee, Arguments arguments) {
  if (callee.is(Kind::kUndefined)) refuse_undefined(callee);
  if (!callee.is(Kind::kObject) || !callee.as_object()->is_callable()) {
    throw complaint("found {}, expected something that can be called", describe(callee));
  }
  const std::shared_ptr<Object> object = callee.as_object();  // which may be replaced meanwhile
  return object->call(*this, std::move(arguments));
}

Value Runtime::filter(std::string_view name, const Value& value, Arguments arguments) {
  const Function* function = find_filter(name);
  if (function == nullptr) {
    throw complaint("found the filter {}, expected one that is known",
                    printable(shorten(name, 40)));
  }
  return run(*function, value, std::move(arguments));
}

bool Runtime::test(std::string_view name, const Value& value, Arguments arguments) {
  const Function* function = find_test(name);
  if (function == nullptr) {
    throw complaint("found the test {}, expected one that is known", printable(shorten(name, 40)));
  }
  return truth(run(*function, value, std::move(arguments)));
}

Value Runtime::run(const Function& function, const Value& self, Arguments arguments) {
  std::size_t weight = weight_of(self);
  for (const Value& value : arguments.values) weight += weight_of(value);
  for (const auto& [name, value] : arguments.named) weight += weight_of(value);
  budget.steps(1);
  budget.read(weight);
  const Budget::Level level(budget);
  return function.run(Call(*this, function, self, std::move(arguments)));
}

const Function* find_filter(std::string_view name) {
  for (const auto table : {text_filters(), list_filters(), choosing_filters(), number_filters()}) {
    if (const Function* found = find_in(table, name)) return found;
  }
  return nullptr;
}

const Function* find_test(std::string_view name) {
  return find_in(value_tests(), name);
}

std::optional<Value> find_method(const Value& value, std::string_view name) {
  const auto table = value.is(Kind::kString) ? text_methods() : container_methods(value.kind());
  if (const Function* found = find_in(table, name)) {
    refuse_safe(value);
    return Value(std::make_shared<Bound>(*found, value));
  }
  if (would_change(value.kind(), name) || name.starts_with("__")) {
    return Value::undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe",
                                        shorten(name, 40), type_name(value)));
  }
  if (lacks_method(value.kind(), name)) {
    throw complaint("found {}.{}, expected a method that this library has", type_name(value), name);
  }
  return std::nullopt;
}

std::optional<Value> find_global(std::string_view name) {
  const Function* found = find_in(globals(), name);
  if (found == nullptr) return std::nullopt;
  return Value(std::make_shared<Bound>(*found, Value()));
}

Value at_path(const Value& value, const Value& path, const Value& fallback, Budget& budget) {
  if (path.is(Kind::kNone)) return value;
  Value out = value;
  const auto step = [&](const Value& key) {
    out = item(out, key, budget);
    if (out.is(Kind::kUndefined) && !fallback.is(Kind::kNone)) out = fallback;
  };
  if (!path.is(Kind::kString)) {
    step(path);
    return out;
  }
  for (const std::string& part : split(path.bytes(), ".")) {
    const bool digits = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    const auto index = digits ? parse_number<std::int64_t>(part) : std::nullopt;
    step(index ? Value(*index) : Value::text(part));
  }
  return out;
}

}  // namespace turnbench::jinja
