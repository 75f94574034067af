#pragma once

#include <compare>

#include "inference/jinja/value.h"

namespace turnbench::jinja {

/// Python's `bool(value)`.
bool truth(const Value& value);

/// `a == b`
bool equal(const Value& a, const Value& b, Budget& budget);

/// `a < b` and the like; refuses values that Python does not order.
std::partial_ordering order(const Value& a, const Value& b, Budget& budget);

/// `item in container`
bool contains(const Value& container, const Value& item, Budget& budget);

/// The value at a key, or nullptr.  Refuses keys that Python cannot hash: lists and dicts.
const Value* find(const Dict& dict, const Value& key, Budget& budget);
const Value* find(const Dict& dict, std::string_view key);

/// Adds an item, or replaces the value of its key.
void insert(std::vector<std::pair<Value, Value>>& items, Value key, Value value, Budget& budget);

/// Refuses what Python cannot hash.
void require_hashable(const Value& value);

/// A message of Jinja2 for a value that is undefined.
[[noreturn]] void refuse_undefined(const Value& value);

}  // namespace turnbench::jinja
