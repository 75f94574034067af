#include "inference/jinja/compare.h"

#include <algorithm>

#include "common/python_text.h"
#include "inference/jinja/access.h"
#include "inference/jinja/object.h"

namespace turnbench::jinja {
namespace {

/// Exact also where an integer is no double: a long double holds both.
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
    case Kind::kList:
    case Kind::kTuple:
      return !value.as_list().items.empty();
    case Kind::kDict:
      return !value.as_dict().items.empty();
    case Kind::kObject:
      return value.as_object()->length() != std::size_t{0};
  }
  return false;
}

bool equal(const Value& a, const Value& b, Budget& budget) {
  budget.steps(1);
  if (a.is_number() && b.is_number()) return order_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  if (a.is_same(b)) return true;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      budget.read(std::min(a.as_text().size(), b.as_text().size()));
      return a.bytes() == b.bytes();
    case Kind::kList:
    case Kind::kTuple:
      return equal_items(a.as_list().items, b.as_list().items, budget);
    case Kind::kDict:
      return equal_dicts(a.as_dict(), b.as_dict(), budget);
    default:
      return false;  // objects are equal to themselves only
  }
}

std::partial_ordering order(const Value& a, const Value& b, Budget& budget) {
  budget.steps(1);
  if (a.is_number() && b.is_number()) return order_numbers(a, b);
  if (a.is(Kind::kUndefined)) refuse_undefined(a);
  if (b.is(Kind::kUndefined)) refuse_undefined(b);
  if (a.kind() == b.kind()) {
    if (a.is(Kind::kString)) {
      budget.read(std::min(a.as_text().size(), b.as_text().size()));
      return a.bytes().compare(b.bytes()) <=> 0;  // bytes of UTF-8 are ordered like code points
    }
    if (a.is_sequence()) {
      const auto &left = a.as_list().items, &right = b.as_list().items;
      for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
        if (!equal(left[i], right[i], budget)) return order(left[i], right[i], budget);
      }
      return left.size() <=> right.size();
    }
  }
  throw complaint("found {} and {}, expected values of which one can be less than the other",
                  describe(a), describe(b));
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  if (container.is(Kind::kString)) {
    if (item.is(Kind::kUndefined)) refuse_undefined(item);
    if (!item.is(Kind::kString)) {
      throw complaint("found {}, expected a string to look for in a string", describe(item));
    }
    budget.read(container.as_text().size());
    return python::contains(container.bytes(), item.bytes());
  }
  if (container.is(Kind::kDict)) return find(container.as_dict(), item, budget) != nullptr;
  if (container.is_sequence()) {
    const std::vector<Value>& items = container.as_list().items;
    return std::any_of(items.begin(), items.end(),
                       [&](const Value& other) { return equal(item, other, budget); });
  }
  const auto values = iterate(container, budget);
  while (const auto other = values->next()) {
    if (equal(item, *other, budget)) return true;
  }
  return false;
}

const Value* find(const Dict& dict, const Value& key, Budget& budget) {
  require_hashable(key);
  if (key.is(Kind::kString)) {
    budget.steps(dict.items.size() / 8);
    budget.read(key.as_text().size());
    return find(dict, key.bytes());
  }
  for (const auto& [other, value] : dict.items) {
    if (equal(key, other, budget)) return &value;
  }
  return nullptr;
}

const Value* find(const Dict& dict, std::string_view key) {
  for (const auto& [other, value] : dict.items) {
    if (other.is(Kind::kString) && other.bytes() == key) return &value;
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
  if (value.is(Kind::kList) || value.is(Kind::kDict)) {
    throw complaint("found {} as a key, expected a value that never changes", describe(value));
  }
  if (value.is(Kind::kTuple)) {
    for (const Value& item : value.as_list().items) require_hashable(item);
  }
}

void refuse_undefined(const Value& value) {
  throw complaint("found an undefined value ({}), expected a defined one", describe(value));
}

}  // namespace turnbench::jinja
