#pragma once

#include <compare>

#include "text/jinja/value.h"

namespace turnbench::jinja {

/// Python's `bool(value)`.
bool truth(const Value& value);

/// `a == b`
bool equal(const Value& a, const Value& b, Budget& budget);

/// Order of `a` and `b` for `<` and similar operators, for numbers and strings.
std::partial_ordering order(const Value& a, const Value& b, Budget& budget);

/// `item in container`
bool contains(const Value& container, const Value& item, Budget& budget);

/// `a OPERATOR b` for == != < <= > >= in "not in".
bool compare(std::string_view op, const Value& a, const Value& b, Budget& budget);

/// `a OPERATOR b` for + - * / // % as in Python.  Rejects integers beyond 64 bits, formats ('%s' %
/// x), // and % of floats, and strings that the filter `safe` marked.
Value calculate(std::string_view op, const Value& a, const Value& b, Budget& budget);

/// `-value`
Value negative(const Value& value);

/// The value of a key, or nullptr.  Rejects keys that Python cannot hash: lists and dicts.
const Value* find(const Dict& dict, const Value& key, Budget& budget);

/// Adds an item, or replaces the value of its key.
void insert(std::vector<std::pair<Value, Value>>& items, Value key, Value value, Budget& budget);

/// Rejects values that Python cannot hash.
void require_hashable(const Value& value);

/// Rejects a string that the filter `safe` marked.
void refuse_marked(const Value& value);

/// `len(value)`; nullopt if the type has no length.
std::optional<std::size_t> length(const Value& value);

/// The values over which `for` iterates: elements, keys, characters.  Rejects values over which
/// Python cannot iterate.
std::shared_ptr<Iterator> iterate(const Value& value, Budget& budget);
bool is_iterable(const Value& value);

/// All values of `iterate`.
std::vector<Value> values_of(const Value& value, Budget& budget);

/// `value.name`: a method or attribute, else the element with that key; undefined if there is
/// neither.  Rejects an undefined value.
Value attribute(const Value& value, std::string_view name, Budget& budget);

/// `value[key]`: the element, else the attribute of that name; undefined if there is neither.
Value item(const Value& value, const Value& key, Budget& budget);

/// `value.a.b` for the path "a.b", as in the parameter `attribute` of filters; if an element is
/// undefined and `fallback` is not None, `fallback`.
Value at_path(const Value& value, const Value& path, const Value& fallback, Budget& budget);

/// `value[start:stop:step]`; omitted bounds are None.
Value slice(const Value& value, const Value& start, const Value& stop, const Value& step,
            Budget& budget);

/// A part of a string as a value.
Value substring(const Slice& part, Budget& budget);

}  // namespace turnbench::jinja
