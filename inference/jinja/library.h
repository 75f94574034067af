#pragma once

#include <span>

#include "inference/jinja/runtime.h"

namespace turnbench::jinja {

/// One call of a library function with its parameters found.
class Call {
 public:
  /// Refuses arguments that the function does not take, and missing ones.
  Call(Runtime& runtime, const Function& function, const Value& self, Arguments arguments);

  /// A parameter: has() says whether it was given, get() is None where it was not.
  bool has(std::size_t i) const { return given_[i].has_value(); }
  Value get(std::size_t i) const { return given_[i].value_or(None{}); }

  /// Typed parameters; anything else is refused.
  const Text& text(std::size_t i) const;
  std::int64_t integer(std::size_t i, std::int64_t fallback) const;
  bool truth(std::size_t i, bool fallback) const;
  /// None for what was not given, or is None.
  std::optional<std::string_view> maybe_text(std::size_t i) const;

  /// The value in front: as it is, as a string of any value (Python's `str`), or all its elements.
  const Value& self() const { return self_; }
  String self_text() const;
  std::vector<Value> self_values() const;

  /// What was given beyond the parameters, if the function takes it.
  const Arguments& more() const { return more_; }

  Value make(std::string text) const;  ///< a string, charged to the budget

  Runtime& runtime;
  Budget& budget;

 private:
  [[noreturn]] void refuse(std::size_t i, std::string_view expected) const;

  const Function& function_;
  Value self_;
  std::vector<std::optional<Value>> given_;
  Arguments more_;
};

/// A function of the library: a filter, a test, a method or a global.
struct Function {
  std::string_view name;
  /// The names of its parameters: "old new count?".  A question mark stands behind those that may
  /// be missing, "/" in front if all are positional, "*" behind if it takes more values and "**"
  /// if it takes more names.
  std::string_view parameters;
  Value (*run)(const Call&);
};

/// nullptr for a name that is not known.
const Function* find_filter(std::string_view name);
const Function* find_test(std::string_view name);

/// The names that Jinja2 has and this library leaves out.
bool is_left_out(std::string_view filter);

/// A method of a value, bound to it.  One that would change the value is undefined, as in the
/// immutable sandbox: it can be asked for, but not called.
std::optional<Value> find_method(const Value& value, std::string_view name);

/// A name that every template knows: range, dict, namespace, ...
std::optional<Value> find_global(std::string_view name);

/// `values[first], values[first + step], ...` of a range.
Value slice_of_range(const Value& range, std::int64_t first, std::int64_t step, std::size_t count);

/// The elements of a dict as `dict.items()`, `.keys()` and `.values()` have them.
Value view_of(const Value& dict, std::string_view name);

/// `value.a.b` for the path "a.b", as the parameter `attribute` of filters means it; where an
/// element is undefined it is `fallback`, if that is not None.
Value at_path(const Value& value, const Value& path, const Value& fallback, Budget& budget);

/// Python's `int(value)` and `float(value)`; none where it raises ValueError or TypeError.
std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t base);
std::optional<double> parse_float(std::string_view text);

/// The tables, each in its own file.
std::span<const Function> text_filters();
std::span<const Function> list_filters();
std::span<const Function> choosing_filters();
std::span<const Function> number_filters();
std::span<const Function> value_tests();
std::span<const Function> text_methods();
std::span<const Function> container_methods(Kind kind);
std::span<const Function> globals();

}  // namespace turnbench::jinja
