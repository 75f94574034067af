#pragma once

#include "inference/jinja/object.h"

namespace turnbench::jinja {

/// `len(value)`, or none for what has no length.
std::optional<std::size_t> length(const Value& value);

/// The values that `for` takes from a value: elements, keys, characters.  Refuses what Python
/// cannot iterate over.
std::shared_ptr<Iterator> iterate(const Value& value, Budget& budget);
bool is_iterable(const Value& value);

/// All of them.
std::vector<Value> values_of(const Value& value, Budget& budget);

/// `value.name`: a method or attribute, else the element with that key; undefined if there is
/// neither.  Refuses an undefined value.
Value attribute(const Value& value, std::string_view name, Budget& budget);

/// `value[key]`: the element, else the attribute of that name; undefined if there is neither.
Value item(const Value& value, const Value& key, Budget& budget);

/// The attribute or method alone, without regard to elements; none if there is none.
std::optional<Value> own_attribute(const Value& value, std::string_view name);

/// `value[start:stop:step]`, where None stands for what is left out.
Value slice(const Value& value, const Value& start, const Value& stop, const Value& step,
            Budget& budget);

/// A part of a string as a value.
Value substring(const Slice& part, Budget& budget);

}  // namespace turnbench::jinja
