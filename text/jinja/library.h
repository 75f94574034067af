#pragma once

#include <span>

#include "text/jinja/value.h"

namespace turnbench::jinja {

struct Function;

/// One call of a library function, with its arguments matched to parameters.
class Call {
 public:
  /// Rejects unexpected and missing arguments.
  Call(Runtime& runtime, const Function& function, const Value& self, Arguments arguments);

  /// A parameter: has() is true if it was given; get() is None if it was not.
  bool has(std::size_t i) const { return given_[i].has_value(); }
  Value get(std::size_t i) const { return given_[i].value_or(None{}); }

  /// Typed parameters; other types are rejected.
  const Text& text(std::size_t i) const;
  std::int64_t integer(std::size_t i, std::int64_t fallback) const;
  bool truth(std::size_t i) const;  ///< false if it was not given
  /// nullopt if it was not given or is None.
  std::optional<std::string_view> maybe_text(std::size_t i) const;

  /// The value to which the function is applied: unchanged, as the text of any value (Python's
  /// `str`), or as all its elements.
  const Value& self() const { return self_; }
  TextPointer self_text() const;
  std::vector<Value> self_values() const;

  /// The arguments beyond the parameters, if the function accepts them.
  const Arguments& more() const { return more_; }

  Value make(std::string text) const;  ///< a string, charged to the budget
  /// The parts of a text as a list.
  Value make_list(const std::vector<Slice>& parts) const;

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
  /// The names of its parameters: "old new count?".  A question mark follows optional ones, a
  /// leading "/" makes all positional, a trailing "*" accepts further arguments of any kind.
  std::string_view parameters;
  Value (*run)(const Call&);
};

/// `callee(arguments)`
Value call(Runtime& runtime, const Value& callee, Arguments arguments);

/// `value|name(arguments)` and `value is name(arguments)`; unknown names are rejected.
Value filter(Runtime& runtime, std::string_view name, const Value& value, Arguments arguments);
bool test(Runtime& runtime, std::string_view name, const Value& value, Arguments arguments);

/// A method of a value, bound to it; nullopt if Python has no method of that name.  Rejects methods
/// of Python that this library does not implement.
std::optional<Value> find_method(const Value& value, std::string_view name);

/// A global name: range, namespace, raise_exception, strftime_now.  Rejects names of Jinja2 that
/// this library does not implement.
std::optional<Value> find_global(std::string_view name);

/// The elements of a dict, of type dict_items, dict_keys or dict_values.
Value elements_of(const Call& call, std::string_view type);

/// The tables of functions, each in its own file.
std::span<const Function> filters();
std::span<const Function> value_tests();
std::span<const Function> methods_of(Kind kind);

}  // namespace turnbench::jinja
