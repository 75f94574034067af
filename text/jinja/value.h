#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/date_time.h"
#include "text/jinja/text.h"

namespace turnbench::jinja {

class Object;
class Runtime;
class Value;

/// Jinja2's default Undefined: prints as an empty string, is empty and false; most other uses are
/// rejected with the reason.
struct Undefined {
  std::shared_ptr<const std::string> why;
};

struct None {};

/// A string.  Results of the filter `safe` are marked, because Jinja2 would escape text that is
/// added to them.
struct String {
  TextPointer text;
  bool marked = false;
};

/// Of Python's types list, tuple, range, dict_items, dict_keys and dict_values.
struct Sequence {
  std::string_view type;
  std::vector<Value> items;
  int depth = 1;  ///< nesting depth of containers, including this one
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;  ///< in order of insertion, with unique keys
  int depth = 1;
};

enum class Kind { kUndefined, kNone, kBool, kInteger, kFloat, kString, kSequence, kDict, kObject };

/// A Python value as templates see it.  Cheap to copy; containers are immutable, as in Jinja2's
/// immutable sandbox.
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
  /// These reject containers that are nested too deep.
  static Value sequence(std::string_view type, std::vector<Value> items);
  static Value list(std::vector<Value> items) { return sequence("list", std::move(items)); }
  static Value tuple(std::vector<Value> items) { return sequence("tuple", std::move(items)); }
  static Value dict(std::vector<std::pair<Value, Value>> items);

  Kind kind() const { return static_cast<Kind>(value_.index()); }
  bool is(Kind kind) const { return this->kind() == kind; }
  bool is_number() const { return is(Kind::kBool) || is(Kind::kInteger) || is(Kind::kFloat); }
  bool is_sequence(std::string_view type) const {
    return is(Kind::kSequence) && as_sequence().type == type;
  }
  bool is_list_or_tuple() const { return is_sequence("list") || is_sequence("tuple"); }

  const Undefined& as_undefined() const { return std::get<Undefined>(value_); }
  bool as_bool() const { return std::get<bool>(value_); }
  double as_float() const { return std::get<double>(value_); }
  const String& as_string() const { return std::get<String>(value_); }
  const Text& as_text() const { return *as_string().text; }
  std::string_view bytes() const { return as_text().bytes(); }
  const Sequence& as_sequence() const { return *std::get<SequencePointer>(value_); }
  const std::vector<Value>& items() const { return as_sequence().items; }
  const Dict& as_dict() const { return *std::get<DictPointer>(value_); }
  const std::shared_ptr<Object>& as_object() const {
    return std::get<std::shared_ptr<Object>>(value_);
  }
  /// The value of an integer or bool (0 or 1).
  std::optional<std::int64_t> integer() const;
  /// The value of any number.
  std::optional<double> number() const;

  /// Nesting depth of containers; 0 for other values.
  int depth() const;

 private:
  using SequencePointer = std::shared_ptr<const Sequence>;
  using DictPointer = std::shared_ptr<const Dict>;

  explicit Value(SequencePointer sequence) : value_(std::move(sequence)) {}
  explicit Value(DictPointer dict) : value_(std::move(dict)) {}

  std::variant<Undefined, None, bool, std::int64_t, double, String, SequencePointer, DictPointer,
               std::shared_ptr<Object>>
      value_;
};

/// One more than the maximum depth of the values; rejects a depth beyond the limit.
int depth_over(const std::vector<Value>& items);

/// Python's name of the type: "str", "int", "NoneType", ...
std::string type_name(const Value& value);

/// For messages: "a list of 3", "the string \"abc\"", "'x' is undefined".
std::string describe(const Value& value);

/// Throws Jinja2's message for an undefined value.
[[noreturn]] void refuse_undefined(const Value& value);

/// The arguments of a call.
struct Arguments {
  std::vector<Value> values;
  std::vector<std::pair<std::string, Value>> named;
};

/// A value with a state or a function of its own.  Operations that an object does not override are
/// rejected.
class Object {
 public:
  virtual ~Object() = default;

  virtual std::string type_name() const = 0;
  virtual int depth() const { return 0; }
  virtual std::optional<Value> attribute(std::string_view /*name*/) { return std::nullopt; }
  virtual bool is_callable() const { return false; }
  virtual Value call(Runtime&, Arguments);
  /// Drops the values that it references, at the end of a rendering.
  virtual void forget() {}
};

/// A generator of Python: its values can be consumed once.
class Iterator : public Object {
 public:
  explicit Iterator(std::vector<Value> values)
      : values_(std::move(values)), depth_(depth_over(values_)) {}

  std::optional<Value> next() {
    return at_ < values_.size() ? std::optional(values_[at_++]) : std::nullopt;
  }
  std::string type_name() const override { return "generator"; }
  int depth() const override { return depth_; }

 private:
  std::vector<Value> values_;
  std::size_t at_ = 0;
  int depth_;
};

/// The result of `namespace(...)`: the only value whose attributes a template can set.
class Namespace : public Object {
 public:
  std::string type_name() const override { return "Namespace"; }
  std::optional<Value> attribute(std::string_view name) override {
    const auto found = values_.find(name);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }
  void forget() override { values_.clear(); }

  /// `{% set namespace.name = value %}`
  void set(const std::string& name, Value value) { values_[name] = std::move(value); }

 private:
  std::map<std::string, Value, std::less<>> values_;
};

/// The state of a rendering that functions need.
class Runtime {
 public:
  Runtime(const Limits& limits, const DateTime& time) : budget(limits), now(time) {}
  /// Breaks reference cycles between values.
  ~Runtime() {
    for (const auto& object : kept_) object->forget();
  }
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// Registers an object that can hold values which refer back to it.
  void keep(std::shared_ptr<Object> object) {
    budget.elements(2);
    kept_.push_back(std::move(object));
  }

  Budget budget;
  const DateTime now;

 private:
  std::vector<std::shared_ptr<Object>> kept_;
};

}  // namespace turnbench::jinja
