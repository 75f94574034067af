#include "text/jinja/operators.h"

#include <algorithm>

#include "common/python_text.h"
#include "text/jinja/library.h"

namespace turnbench::jinja {
namespace {

/// Exact even for integers that a double cannot represent, because a long double represents both.
std::partial_ordering order_numbers(const Value& a, const Value& b) {
  const auto i = a.integer(), j = b.integer();
  if (i && j) return *i <=> *j;
  const auto wide = [](const Value& v) {
    const auto whole = v.integer();
    return whole ? static_cast<long double>(*whole) : static_cast<long double>(*v.number());
  };
  return wide(a) <=> wide(b);
}

bool equal_items(const std::vector<Value>& a, const std::vector<Value>& b, Budget& budget) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const Value& x, const Value& y) { return equal(x, y, budget); });
}

bool equal_dicts(const Dict& a, const Dict& b, Budget& budget) {
  return a.items.size() == b.items.size() &&
         std::all_of(a.items.begin(), a.items.end(), [&](const auto& item) {
           const Value* other = find(b, item.first, budget);
           return other != nullptr && equal(item.second, *other, budget);
         });
}

std::int64_t checked(bool overflows, std::int64_t result) {
  if (overflows) throw complaint("found a result beyond 64 bits, expected a smaller integer");
  return result;
}

template <typename Number>
void refuse_zero(Number divisor) {
  if (divisor == 0) throw complaint("found a division by zero, expected another divisor");
}

std::int64_t negated(std::int64_t number) {
  std::int64_t out = 0;
  const bool overflows = __builtin_sub_overflow(std::int64_t{0}, number, &out);
  return checked(overflows, out);
}

Value on_integers(std::string_view op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  bool overflows = false;
  if (op == "+") overflows = __builtin_add_overflow(a, b, &out);
  if (op == "-") overflows = __builtin_sub_overflow(a, b, &out);
  if (op == "*") overflows = __builtin_mul_overflow(a, b, &out);
  if (op == "+" || op == "-" || op == "*") return checked(overflows, out);
  refuse_zero(b);
  if (op == "/") {
    return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
  }
  // Rounds down; the remainder has the sign of the divisor.
  if (b == -1) return op == "%" ? 0 : negated(a);
  const std::int64_t rest = a % b;
  const bool down = rest != 0 && (rest < 0) != (b < 0);
  return op == "%" ? rest + (down ? b : 0) : a / b - (down ? 1 : 0);
}

Value on_floats(std::string_view op, double a, double b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op != "/") throw complaint("found {} of floats, expected integers", op);
  refuse_zero(b);
  return a / b;
}

Value repeated(const Text& text, std::int64_t times, Budget& budget) {
  TextBuilder out(budget);
  out.repeat(text, times > 0 ? static_cast<std::size_t>(times) : 0);
  return out.finish();
}

/// `a + b` of strings, of lists, or of tuples.
Value concatenated(const Value& a, const Value& b, Budget& budget) {
  if (a.is(Kind::kString)) {
    TextBuilder out(budget);
    out.add(a.as_text()).add(b.as_text());
    return out.finish();
  }
  std::vector<Value> out = a.items();
  budget.elements(out.size() + b.items().size());
  out.insert(out.end(), b.items().begin(), b.items().end());
  return Value::sequence(a.as_sequence().type, std::move(out));
}

// Access

std::shared_ptr<Iterator> iterator_of(const Value& value) {
  return value.is(Kind::kObject) ? std::dynamic_pointer_cast<Iterator>(value.as_object()) : nullptr;
}

std::vector<Value> characters(const Text& text, Budget& budget) {
  std::vector<Value> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    next_code_point(text.bytes(), at);
    budget.elements(1);
    out.push_back(substring({&text, begin, at}, budget));
  }
  return out;
}

/// The element at an index, which may count from the end; nullopt if out of range.
std::optional<Value> element(const Value& value, std::int64_t index, Budget& budget) {
  if (value.is(Kind::kString)) {
    refuse_marked(value);
    budget.read(value.as_text().size());
  }
  const auto count = static_cast<std::int64_t>(*length(value));
  if (index < 0) index += count;
  if (index < 0 || index >= count) return std::nullopt;
  const auto at = static_cast<std::size_t>(index);
  if (!value.is(Kind::kString)) return value.items()[at];
  std::size_t end = offset_of(value.bytes(), at);
  const std::size_t begin = end;
  next_code_point(value.bytes(), end);
  return substring({&value.as_text(), begin, end}, budget);
}

bool has_indices(const Value& value) {
  return value.is(Kind::kString) || value.is_list_or_tuple() || value.is_sequence("range");
}

/// The element with a key or at an index; nullopt if it does not exist, or the value has no
/// elements.
std::optional<Value> element(const Value& value, const Value& key, Budget& budget) {
  if (value.is(Kind::kDict)) {
    if (key.is_sequence("list") || key.is(Kind::kDict)) return std::nullopt;
    const Value* found = find(value.as_dict(), key, budget);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  const auto index = key.integer();
  return index && has_indices(value) ? element(value, *index, budget) : std::nullopt;
}

/// The attribute or method, ignoring elements.
std::optional<Value> own_attribute(const Value& value, std::string_view name) {
  if (value.is(Kind::kUndefined)) refuse_undefined(value);
  return value.is(Kind::kObject) ? value.as_object()->attribute(name) : find_method(value, name);
}

/// Jinja2's message for a missing key.
Value missing(const Value& value, const Value& key) {
  const std::string object = value.is(Kind::kNone) ? "None" : type_name(value) + " object";
  if (!key.is(Kind::kString)) {
    return Value::undefined(fmt::format("{} has no element {}", object, describe(key)));
  }
  return Value::undefined(
      fmt::format("'{}' has no attribute '{}'", object, shorten(key.bytes(), 60)));
}

/// The first index and the number of elements of a slice.
struct Extent {
  std::int64_t first = 0, step = 1;
  std::size_t count = 0;
};

Extent extent_of(std::int64_t size, const Value& start, const Value& stop, std::int64_t step) {
  const std::int64_t low = step < 0 ? -1 : 0, high = step < 0 ? size - 1 : size;
  const auto place = [&](const Value& bound, std::int64_t fallback) {
    if (bound.is(Kind::kNone)) return fallback;
    const std::int64_t given = *bound.integer();
    return std::clamp(given < 0 ? given + size : given, low, high);
  };
  const std::int64_t first = place(start, step < 0 ? high : low);
  const std::int64_t last = place(stop, step < 0 ? low : high);
  const std::int64_t distance = step < 0 ? first - last : last - first;
  if (distance <= 0) return {first, step, 0};
  // The magnitude of the smallest integer is not representable.
  const std::uint64_t stride = step < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(step)
                                        : static_cast<std::uint64_t>(step);
  return {first, step, (static_cast<std::uint64_t>(distance) - 1) / stride + 1};
}

/// Calls `take` with the index of each element.
template <typename Take>
void for_each_index(const Extent& extent, const Take& take) {
  std::int64_t at = extent.first;
  for (std::size_t n = 0; n < extent.count; ++n) {
    if (n > 0) at += extent.step;  // may be too large for another addition
    take(static_cast<std::size_t>(at));
  }
}

Value slice_of_text(const Text& text, const Extent& extent, Budget& budget) {
  budget.read(text.size());
  if (extent.count == 0) return Text();
  if (extent.step == 1) {
    const std::size_t begin = offset_of(text.bytes(), static_cast<std::size_t>(extent.first));
    const std::size_t size = offset_of(text.bytes().substr(begin), extent.count);
    return substring({&text, begin, begin + size}, budget);
  }
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < text.size(); next_code_point(text.bytes(), i)) starts.push_back(i);
  starts.push_back(text.size());
  TextBuilder out(budget);
  for_each_index(extent, [&](std::size_t i) { out.add(Slice{&text, starts[i], starts[i + 1]}); });
  return out.finish();
}

}  // namespace

bool truth(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return value.as_bool();
    case Kind::kInteger:
      return *value.integer() != 0;
    case Kind::kFloat:
      return value.as_float() != 0;
    case Kind::kString:
      return value.as_text().size() > 0;
    case Kind::kDict:
      return !value.as_dict().items.empty();
    case Kind::kObject:
      return true;
    case Kind::kSequence:
      return !value.items().empty();
  }
  return false;
}

bool equal(const Value& a, const Value& b, Budget& budget) {
  budget.steps(1);
  if (a.is_number() && b.is_number()) return order_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      budget.read(std::min(a.as_text().size(), b.as_text().size()));
      return a.bytes() == b.bytes();
    case Kind::kDict:
      return equal_dicts(a.as_dict(), b.as_dict(), budget);
    case Kind::kSequence:
      if (a.is_list_or_tuple() || b.is_list_or_tuple()) {
        return a.as_sequence().type == b.as_sequence().type &&
               equal_items(a.items(), b.items(), budget);
      }
      throw complaint("found {} and {}, expected lists (|list makes one)", describe(a),
                      describe(b));
    case Kind::kObject:
      return a.as_object() == b.as_object();
    default:
      return false;
  }
}

std::partial_ordering order(const Value& a, const Value& b, Budget& budget) {
  budget.steps(1);
  if (a.is_number() && b.is_number()) return order_numbers(a, b);
  if (a.is(Kind::kUndefined)) refuse_undefined(a);
  if (b.is(Kind::kUndefined)) refuse_undefined(b);
  if (a.kind() == b.kind() && a.is(Kind::kString)) {
    budget.read(std::min(a.as_text().size(), b.as_text().size()));
    // The byte order of UTF-8 equals the order of code points.
    return a.bytes().compare(b.bytes()) <=> 0;
  }
  throw complaint("found {} and {}, expected values of which one can be less than the other",
                  describe(a), describe(b));
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  if (container.is(Kind::kDict)) return find(container.as_dict(), item, budget) != nullptr;
  if (container.is(Kind::kString)) {
    if (item.is(Kind::kUndefined)) refuse_undefined(item);
    if (!item.is(Kind::kString)) {
      throw complaint("found {}, expected a string to look for in a string", describe(item));
    }
    budget.read(container.as_text().size());
    return python::contains(container.bytes(), item.bytes());
  }
  const auto values = iterate(container, budget);
  while (const auto other = values->next()) {
    if (equal(item, *other, budget)) return true;
  }
  return false;
}

bool compare(std::string_view op, const Value& a, const Value& b, Budget& budget) {
  if (op == "==") return equal(a, b, budget);
  if (op == "!=") return !equal(a, b, budget);
  if (op == "in") return contains(b, a, budget);
  if (op == "not in") return !contains(b, a, budget);
  const std::partial_ordering sign = order(a, b, budget);
  return op == "<" ? sign < 0 : op == "<=" ? sign <= 0 : op == ">" ? sign > 0 : sign >= 0;
}

Value calculate(std::string_view op, const Value& a, const Value& b, Budget& budget) {
  refuse_marked(a);
  refuse_marked(b);
  const auto i = a.integer(), j = b.integer();
  if (i && j) return on_integers(op, *i, *j);
  if (a.is_number() && b.is_number()) return on_floats(op, *a.number(), *b.number());
  if (op == "*" && a.is(Kind::kString) && j) return repeated(a.as_text(), *j, budget);
  if (op == "*" && b.is(Kind::kString) && i) return repeated(b.as_text(), *i, budget);
  const bool adds = (a.is(Kind::kString) && b.is(Kind::kString)) ||
                    (a.is_list_or_tuple() && b.is_sequence(a.as_sequence().type));
  if (op == "+" && adds) return concatenated(a, b, budget);
  if (a.is(Kind::kUndefined)) refuse_undefined(a);
  if (b.is(Kind::kUndefined)) refuse_undefined(b);
  throw complaint("found {} {} {}, expected values that can be combined so", describe(a), op,
                  describe(b));
}

Value negative(const Value& value) {
  if (value.is(Kind::kFloat)) return -value.as_float();
  if (const auto whole = value.integer()) return negated(*whole);
  if (value.is(Kind::kUndefined)) refuse_undefined(value);
  throw complaint("found {}, expected a number", describe(value));
}

const Value* find(const Dict& dict, const Value& key, Budget& budget) {
  require_hashable(key);
  for (const auto& [other, value] : dict.items) {
    if (equal(key, other, budget)) return &value;
  }
  return nullptr;
}

void insert(std::vector<std::pair<Value, Value>>& items, Value key, Value value, Budget& budget) {
  require_hashable(key);
  for (auto& [other, present] : items) {
    if (equal(key, other, budget)) {
      present = std::move(value);
      return;
    }
  }
  budget.elements(2);
  items.emplace_back(std::move(key), std::move(value));
}

void require_hashable(const Value& value) {
  if (value.is_sequence("list") || value.is(Kind::kDict)) {
    throw complaint("found {} as a key, expected a value that never changes", describe(value));
  }
  if (!value.is_sequence("tuple")) return;
  for (const Value& item : value.items()) require_hashable(item);
}

void refuse_marked(const Value& value) {
  if (!value.is(Kind::kString) || !value.as_string().marked) return;
  throw complaint("found {}, which |safe marked, expected a plain string", describe(value));
}

// Access

std::optional<std::size_t> length(const Value& value) {
  if (value.is(Kind::kUndefined)) return 0;
  if (value.is(Kind::kString)) return count_code_points(value.bytes());
  if (value.is(Kind::kDict)) return value.as_dict().items.size();
  if (value.is(Kind::kSequence)) return value.items().size();
  return std::nullopt;
}

std::shared_ptr<Iterator> iterate(const Value& value, Budget& budget) {
  if (auto out = iterator_of(value)) return out;
  return std::make_shared<Iterator>(values_of(value, budget));
}

bool is_iterable(const Value& value) {
  return length(value).has_value() || iterator_of(value) != nullptr;
}

std::vector<Value> values_of(const Value& value, Budget& budget) {
  if (value.is(Kind::kUndefined)) return {};
  if (value.is(Kind::kString)) return characters(value.as_text(), budget);
  if (value.is(Kind::kSequence)) {
    budget.elements(value.items().size());
    return value.items();
  }
  std::vector<Value> out;
  if (value.is(Kind::kDict)) {
    budget.elements(value.as_dict().items.size());
    for (const auto& [key, item] : value.as_dict().items) out.push_back(key);
    return out;
  }
  const auto values = iterator_of(value);
  if (!values) throw complaint("found {}, expected something to iterate over", describe(value));
  while (auto next = values->next()) {
    budget.elements(1);
    out.push_back(std::move(*next));
  }
  return out;
}

Value attribute(const Value& value, std::string_view name, Budget& budget) {
  if (auto own = own_attribute(value, name)) return *own;
  const Value key = Value::text(name);
  if (value.is(Kind::kDict)) {
    if (const Value* found = find(value.as_dict(), key, budget)) return *found;
  }
  return missing(value, key);
}

Value item(const Value& value, const Value& key, Budget& budget) {
  if (value.is(Kind::kUndefined)) refuse_undefined(value);
  if (auto found = element(value, key, budget)) return *found;
  if (!key.is(Kind::kString)) return missing(value, key);
  if (auto own = own_attribute(value, key.bytes())) return *own;
  return missing(value, key);
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

Value slice(const Value& value, const Value& start, const Value& stop, const Value& step,
            Budget& budget) {
  if (value.is(Kind::kUndefined)) refuse_undefined(value);
  if (!has_indices(value)) throw complaint("found {}, expected a sequence", describe(value));
  refuse_marked(value);
  for (const Value* bound : {&start, &stop, &step}) {
    if (bound->is(Kind::kUndefined)) refuse_undefined(*bound);
    if (bound->is(Kind::kNone) || bound->integer()) continue;
    throw complaint("found {}, expected an integer", describe(*bound));
  }
  const std::int64_t stride = step.integer().value_or(1);
  if (stride == 0) throw complaint("found a slice with step 0, expected another step");
  const Extent extent = extent_of(static_cast<std::int64_t>(*length(value)), start, stop, stride);
  if (value.is(Kind::kString)) return slice_of_text(value.as_text(), extent, budget);
  budget.elements(extent.count);
  std::vector<Value> items;
  for_each_index(extent, [&](std::size_t i) { items.push_back(value.items()[i]); });
  return Value::sequence(value.as_sequence().type, std::move(items));
}

Value substring(const Slice& part, Budget& budget) {
  TextBuilder out(budget);
  out.add(part);
  return out.finish();
}

}  // namespace turnbench::jinja
