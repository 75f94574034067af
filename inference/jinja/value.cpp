#include "inference/jinja/value.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/text.h"
#include "inference/jinja/object.h"

namespace turnbench::jinja {
namespace {

constexpr int kDeepest = 280;  // JSON may have 256 levels

int checked_depth(int depth) {
  if (depth > kDeepest) {
    throw complaint("found values nested {} deep, expected at most {} levels", depth, kDeepest);
  }
  return depth;
}

/// Walks a document and keeps the place that it is at.
class JsonReader {
 public:
  explicit JsonReader(std::vector<std::string>* origins) : origins_(origins) {}

  Value read(const OrderedJson& json) {
    switch (json.type()) {
      case OrderedJson::value_t::null:
        return None{};
      case OrderedJson::value_t::boolean:
        return json.get<bool>();
      case OrderedJson::value_t::number_integer:
        return json.get<std::int64_t>();
      case OrderedJson::value_t::number_unsigned:
        return integer(json.get<std::uint64_t>());
      case OrderedJson::value_t::number_float:
        return json.get<double>();
      case OrderedJson::value_t::string:
        return string(json.get_ref<const std::string&>());
      case OrderedJson::value_t::array:
        return array(json);
      case OrderedJson::value_t::object:
        return object(json);
      default:
        throw input_error("{}: found bytes, expected a value of JSON", place());
    }
  }

 private:
  std::string place() const {
    return "variables: " + (path_.empty() ? "/" : printable(shorten(path_, 200)));
  }

  Value integer(std::uint64_t number) {
    if (number > INT64_MAX) {
      throw input_error("{}: found {}, expected an integer of 64 bits", place(), number);
    }
    return static_cast<std::int64_t>(number);
  }

  Value string(const std::string& bytes) {
    require_utf8(bytes, place());
    if (origins_ == nullptr || bytes.empty()) return Text(bytes);
    origins_->push_back(path_);
    return Text(bytes, static_cast<int>(origins_->size()) - 1);
  }

  Value array(const OrderedJson& json) {
    std::vector<Value> items;
    items.reserve(json.size());
    for (const OrderedJson& item : json) {
      items.push_back(below(std::to_string(items.size()), item));
    }
    return Value::list(std::move(items));
  }

  Value object(const OrderedJson& json) {
    std::vector<std::pair<Value, Value>> items;
    items.reserve(json.size());
    for (const auto& [key, item] : json.items()) {
      require_utf8(key, place());
      const std::string escaped = replace_all(replace_all(key, "~", "~0"), "/", "~1");
      items.emplace_back(Value::text(key), below(escaped, item));
    }
    return Value::dict(std::move(items));
  }

  Value below(const std::string& step, const OrderedJson& item) {
    checked_depth(++level_);
    const std::size_t length = path_.size();
    path_ += "/" + step;
    Value out = read(item);
    path_.resize(length);
    --level_;
    return out;
  }

  std::vector<std::string>* origins_;
  std::string path_;
  int level_ = 0;
};

}  // namespace

Value Value::undefined(std::string why) {
  return Undefined{std::make_shared<const std::string>(std::move(why))};
}

int depth_over(const std::vector<Value>& items) {
  int deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, item.depth());
  return checked_depth(deepest + 1);
}

Value Value::list(std::vector<Value> items) {
  const int depth = depth_over(items);
  return Value(std::make_shared<const List>(List{std::move(items), depth}));
}

Value Value::tuple(std::vector<Value> items, std::vector<std::string> names) {
  const int depth = depth_over(items);
  return Value(std::make_shared<const Tuple>(Tuple{{std::move(items), depth}, std::move(names)}));
}

Value Value::dict(std::vector<std::pair<Value, Value>> items) {
  int deepest = 0;
  for (const auto& [key, item] : items) deepest = std::max({deepest, key.depth(), item.depth()});
  const int depth = checked_depth(deepest + 1);
  return Value(std::make_shared<const Dict>(Dict{std::move(items), depth}));
}

const List& Value::as_list() const {
  if (is(Kind::kTuple)) return as_tuple();
  return *std::get<ListPointer>(value_);
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
  if (is_sequence()) return as_list().depth;
  if (is(Kind::kDict)) return as_dict().depth;
  return is(Kind::kObject) ? as_object()->depth() : 0;
}

bool Value::is_same(const Value& other) const {
  if (kind() != other.kind()) return false;
  switch (kind()) {
    case Kind::kList:
    case Kind::kTuple:
      return &as_list() == &other.as_list();
    case Kind::kDict:
      return &as_dict() == &other.as_dict();
    case Kind::kObject:
      return as_object() == other.as_object();
    default:
      return false;
  }
}

std::string type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInteger:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kObject:
      return value.as_object()->type_name();
  }
  return "";
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
    case Kind::kList:
    case Kind::kTuple:
      return fmt::format("a {} of {}", type_name(value), value.as_list().items.size());
    case Kind::kDict:
      return fmt::format("a dict of {}", value.as_dict().items.size());
    case Kind::kObject:
      return "a value of type " + type_name(value);
  }
  return "";
}

Value from_json(const OrderedJson& json, std::vector<std::string>* origins) {
  return JsonReader(origins).read(json);
}

Value Object::call(Runtime&, Arguments) {
  throw complaint("found a value of type {}, expected one that can be called", type_name());
}

Iterator::Iterator(Next next, int depth)
    : next_(std::move(next)), depth_(checked_depth(depth + 1)) {}

std::shared_ptr<Iterator> iterator_over(std::vector<Value> values) {
  const int depth = depth_over(values);
  auto next = [values = std::move(values), at = std::size_t{0}]() mutable -> std::optional<Value> {
    if (at == values.size()) return std::nullopt;
    return values[at++];
  };
  return std::make_shared<Iterator>(std::move(next), depth);
}

}  // namespace turnbench::jinja
