#include "inference/jinja/access.h"

#include <algorithm>

#include "common/text.h"
#include "inference/jinja/compare.h"
#include "inference/jinja/library.h"

namespace turnbench::jinja {
namespace {

/// "dict object", as Jinja2 says it.
std::string object_name(const Value& value) {
  return value.is(Kind::kNone) ? "None" : type_name(value) + " object";
}

std::shared_ptr<Iterator> characters(const TextPointer& text, Budget& budget) {
  auto next = [text, &budget, at = std::size_t{0}]() mutable -> std::optional<Value> {
    if (at == text->size()) return std::nullopt;
    const std::size_t begin = at;
    next_code_point(text->bytes(), at);
    return substring({text.get(), begin, at}, budget);
  };
  return std::make_shared<Iterator>(std::move(next), 0);
}

/// The elements of a list, or the keys of a dict, which the iterator keeps alive.
std::shared_ptr<Iterator> elements(const Value& value, Budget& budget) {
  auto next = [value, &budget, at = std::size_t{0}]() mutable -> std::optional<Value> {
    budget.steps(1);
    if (value.is(Kind::kDict)) {
      const auto& items = value.as_dict().items;
      return at < items.size() ? std::optional(items[at++].first) : std::nullopt;
    }
    const auto& items = value.as_list().items;
    return at < items.size() ? std::optional(items[at++]) : std::nullopt;
  };
  return std::make_shared<Iterator>(std::move(next), value.depth());
}

/// The element at an index that may count from the end; none outside.
std::optional<Value> element(const Value& value, std::int64_t index, Budget& budget) {
  const auto count = length(value);
  if (!count) return std::nullopt;
  if (index < 0) index += static_cast<std::int64_t>(*count);
  if (index < 0 || index >= static_cast<std::int64_t>(*count)) return std::nullopt;
  const auto at = static_cast<std::size_t>(index);
  if (value.is(Kind::kString)) {
    const Text& text = value.as_text();
    std::size_t end = offset_of(text.bytes(), at);
    const std::size_t begin = end;
    next_code_point(text.bytes(), end);
    return substring({&text, begin, end}, budget);
  }
  if (value.is_sequence()) return value.as_list().items[at];
  return value.is(Kind::kObject) ? value.as_object()->item(at) : std::nullopt;
}

/// The element with a key or at an index; none if there is none, or the value has no elements.
std::optional<Value> element(const Value& value, const Value& key, Budget& budget) {
  if (value.is(Kind::kDict)) {
    if (key.is(Kind::kList) || key.is(Kind::kDict)) return std::nullopt;
    const Value* found = find(value.as_dict(), key, budget);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  const auto index = key.integer();
  if (!index) return std::nullopt;
  if (value.is(Kind::kString)) budget.read(value.as_text().size());
  return element(value, *index, budget);
}

/// The first and the number of the elements that a slice of `size` elements takes.
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
  // The magnitude of the smallest integer is no integer.
  const std::uint64_t stride = step < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(step)
                                        : static_cast<std::uint64_t>(step);
  return {first, step, (static_cast<std::uint64_t>(distance) - 1) / stride + 1};
}

Value slice_of_text(const Text& text, const Extent& range, Budget& budget) {
  if (range.count == 0) return Text();
  if (range.step == 1) {
    const std::size_t begin = offset_of(text.bytes(), static_cast<std::size_t>(range.first));
    const std::size_t length = offset_of(text.bytes().substr(begin), range.count);
    return substring({&text, begin, begin + length}, budget);
  }
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < text.size(); next_code_point(text.bytes(), i)) starts.push_back(i);
  starts.push_back(text.size());
  TextBuilder out(budget);
  std::int64_t at = range.first;
  for (std::size_t n = 0; n < range.count; ++n, at += n < range.count ? range.step : 0) {
    const auto i = static_cast<std::size_t>(at);
    out.add(Slice{&text, starts[i], starts[i + 1]});
  }
  return out.finish();
}

}  // namespace

std::optional<std::size_t> length(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return count_code_points(value.bytes());
    case Kind::kList:
    case Kind::kTuple:
      return value.as_list().items.size();
    case Kind::kDict:
      return value.as_dict().items.size();
    case Kind::kObject:
      return value.as_object()->length();
    default:
      return std::nullopt;
  }
}

std::shared_ptr<Iterator> iterate(const Value& value, Budget& budget) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return iterator_over({});
    case Kind::kString:
      return characters(value.as_string().text, budget);
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
      return elements(value, budget);
    case Kind::kObject:
      if (auto out = value.as_object()->iterate()) return out;
      break;
    default:
      break;
  }
  throw complaint("found {}, expected something to iterate over", describe(value));
}

bool is_iterable(const Value& value) {
  if (value.is(Kind::kObject)) return value.as_object()->iterate() != nullptr;
  return !value.is_number() && !value.is(Kind::kNone);
}

std::vector<Value> values_of(const Value& value, Budget& budget) {
  if (value.is_sequence()) {
    budget.elements(value.as_list().items.size());
    return value.as_list().items;
  }
  std::vector<Value> out;
  const auto values = iterate(value, budget);
  while (auto next = values->next()) {
    budget.elements(1);
    out.push_back(std::move(*next));
  }
  return out;
}

std::optional<Value> own_attribute(const Value& value, std::string_view name) {
  if (value.is(Kind::kObject)) return value.as_object()->attribute(name);
  if (value.is(Kind::kTuple)) {
    const auto& names = value.as_tuple().names;
    const auto found = std::find(names.begin(), names.end(), name);
    if (found != names.end()) {
      return value.as_list().items[static_cast<std::size_t>(found - names.begin())];
    }
  }
  return find_method(value, name);
}

Value attribute(const Value& value, std::string_view name, Budget& budget) {
  if (value.is(Kind::kUndefined)) refuse_undefined(value);
  if (auto own = own_attribute(value, name)) return *own;
  if (value.is(Kind::kDict)) {
    budget.steps(value.as_dict().items.size() / 8);
    if (const Value* found = find(value.as_dict(), name)) return *found;
  }
  return Value::undefined(fmt::format("'{}' has no attribute '{}'", object_name(value), name));
}

Value item(const Value& value, const Value& key, Budget& budget) {
  if (value.is(Kind::kUndefined)) refuse_undefined(value);
  if (auto found = element(value, key, budget)) return *found;
  if (!key.is(Kind::kString)) {
    return Value::undefined(fmt::format("{} has no element {}", object_name(value), describe(key)));
  }
  if (auto own = own_attribute(value, key.bytes())) return *own;
  return Value::undefined(
      fmt::format("'{}' has no attribute '{}'", object_name(value), shorten(key.bytes(), 60)));
}

Value slice(const Value& value, const Value& start, const Value& stop, const Value& step,
            Budget& budget) {
  if (value.is(Kind::kUndefined)) refuse_undefined(value);
  const auto size = length(value);
  const auto is_bound = [](const Value& v) { return v.is(Kind::kNone) || v.integer(); };
  const bool is_sequence = value.is(Kind::kString) || value.is_sequence() ||
                           (value.is(Kind::kObject) && value.as_object()->type_name() == "range");
  if (!size || !is_sequence) throw complaint("found {}, expected a sequence", describe(value));
  for (const Value* bound : {&start, &stop, &step}) {
    if (bound->is(Kind::kUndefined)) refuse_undefined(*bound);
    if (!is_bound(*bound)) throw complaint("found {}, expected an integer", describe(*bound));
  }
  const std::int64_t stride = step.integer().value_or(1);
  if (stride == 0) throw complaint("found a slice with step 0, expected another step");
  const Extent range = extent_of(static_cast<std::int64_t>(*size), start, stop, stride);
  if (value.is(Kind::kString)) {
    budget.read(value.as_text().size());
    return slice_of_text(value.as_text(), range, budget);
  }
  if (value.is(Kind::kObject)) return slice_of_range(value, range.first, range.step, range.count);
  budget.elements(range.count);
  std::vector<Value> items;
  std::int64_t at = range.first;
  for (std::size_t n = 0; n < range.count; ++n, at += n < range.count ? range.step : 0) {
    items.push_back(value.as_list().items[static_cast<std::size_t>(at)]);
  }
  return value.is(Kind::kTuple) ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

Value substring(const Slice& part, Budget& budget) {
  TextBuilder out(budget);
  out.add(part);
  return out.finish();
}

}  // namespace turnbench::jinja
