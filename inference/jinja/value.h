#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/json.h"
#include "inference/jinja/text.h"

namespace turnbench::jinja {

class Object;
class Value;

/// Jinja2's default Undefined: prints as nothing, is empty and false; most other uses refuse it
/// with the reason.
struct Undefined {
  std::shared_ptr<const std::string> why;
};

struct None {};

/// A string.  `safe` marks what the filters safe and escape return.
struct String {
  TextPointer text;
  bool safe = false;
};

struct List {
  std::vector<Value> items;
  int depth = 1;  ///< of containers within each other, this one included
};

/// The names are those of groupby's tuples; others have none.
struct Tuple : List {
  std::vector<std::string> names{};
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;  ///< in the order in which they came, keys once
  int depth = 1;
};

enum class Kind {
  kUndefined,
  kNone,
  kBool,
  kInteger,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kObject
};

/// A value of Python, as far as templates see them.  Cheap to copy; lists, tuples and dicts never
/// change, as in Jinja2's immutable sandbox.
class Value {
 public:
  Value() : Value(Undefined{}) {}
  Value(Undefined why) : value_(std::move(why)) {}
  Value(None none) : value_(none) {}
  Value(bool truth) : value_(truth) {}
  Value(std::int64_t number) : value_(number) {}
  Value(double number) : value_(number) {}
  Value(String text) : value_(std::move(text)) {}
  Value(Text text) : Value(String{std::make_shared<const Text>(std::move(text))}) {}
  explicit Value(std::shared_ptr<Object> object) : value_(std::move(object)) {}
  Value(const char*) = delete;

  static Value undefined(std::string why);
  static Value text(std::string_view bytes) { return Value(Text(std::string(bytes))); }
  static Value size(std::size_t count) { return Value(static_cast<std::int64_t>(count)); }
  /// These refuse containers that are nested too deep.
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items, std::vector<std::string> names = {});
  static Value dict(std::vector<std::pair<Value, Value>> items);

  Kind kind() const { return static_cast<Kind>(value_.index()); }
  bool is(Kind kind) const { return this->kind() == kind; }
  bool is_number() const { return is(Kind::kBool) || is(Kind::kInteger) || is(Kind::kFloat); }
  bool is_sequence() const { return is(Kind::kList) || is(Kind::kTuple); }

  const Undefined& as_undefined() const { return std::get<Undefined>(value_); }
  bool as_bool() const { return std::get<bool>(value_); }
  double as_float() const { return std::get<double>(value_); }
  const String& as_string() const { return std::get<String>(value_); }
  const Text& as_text() const { return *as_string().text; }
  std::string_view bytes() const { return as_text().bytes(); }
  const List& as_list() const;  ///< also of a tuple
  const Tuple& as_tuple() const { return *std::get<TuplePointer>(value_); }
  const Dict& as_dict() const { return *std::get<DictPointer>(value_); }
  const std::shared_ptr<Object>& as_object() const {
    return std::get<std::shared_ptr<Object>>(value_);
  }
  /// An integer, or true and false as 1 and 0.
  std::optional<std::int64_t> integer() const;
  /// Any number.
  std::optional<double> number() const;

  /// How deep containers are within each other; 0 for what is none.
  int depth() const;
  /// Whether two values are one in memory (containers, objects).
  bool is_same(const Value& other) const;

 private:
  using ListPointer = std::shared_ptr<const List>;
  using TuplePointer = std::shared_ptr<const Tuple>;
  using DictPointer = std::shared_ptr<const Dict>;

  explicit Value(ListPointer list) : value_(std::move(list)) {}
  explicit Value(TuplePointer tuple) : value_(std::move(tuple)) {}
  explicit Value(DictPointer dict) : value_(std::move(dict)) {}

  std::variant<Undefined, None, bool, std::int64_t, double, String, ListPointer, TuplePointer,
               DictPointer, std::shared_ptr<Object>>
      value_;
};

/// One more than the deepest of the values; refuses what is too deep.
int depth_over(const std::vector<Value>& items);

/// What Python calls the type: "str", "int", "NoneType", ...
std::string type_name(const Value& value);

/// For messages: "a list of 3", "the string \"abc\"", "'x' is undefined".
std::string describe(const Value& value);

/// A value of JSON.  Where `origins` is given, each string (not a key) is traced: its number is its
/// place in `origins`, to which its JSON pointer is added.  Refuses integers beyond 64 bits and
/// strings that are not UTF-8, with their place.
Value from_json(const OrderedJson& json, std::vector<std::string>* origins = nullptr);

}  // namespace turnbench::jinja
