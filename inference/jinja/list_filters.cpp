#include <algorithm>

#include "common/python_text.h"
#include "common/text.h"
#include "inference/jinja/access.h"
#include "inference/jinja/arithmetic.h"
#include "inference/jinja/compare.h"
#include "inference/jinja/library.h"

namespace turnbench::jinja {
namespace {

using Pair = std::pair<Value, Value>;  // a key and what it is for

/// What values are compared by: strings without regard to case, unless that matters.
Value key_of(const Call& call, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is(Kind::kString)) return value;
  return call.make(python::lower(value.bytes()));
}

void sort_by_key(std::vector<Pair>& pairs, bool reverse, Budget& budget) {
  std::stable_sort(pairs.begin(), pairs.end(), [&](const Pair& a, const Pair& b) {
    return reverse ? order(b.first, a.first, budget) < 0 : order(a.first, b.first, budget) < 0;
  });
}

/// The parameter `reverse`, which Python wants to be true or false.
bool reverses(const Call& call, std::size_t i) {
  return call.integer(i, 0) != 0;
}

std::vector<Value> values_in(std::vector<Pair> pairs) {
  std::vector<Value> out;
  for (Pair& pair : pairs) out.push_back(std::move(pair.second));
  return out;
}

Value length_filter(const Call& call) {
  const auto count = length(call.self());
  if (!count) throw complaint("found {}, expected a value with a length", describe(call.self()));
  return Value::size(*count);
}

Value first_filter(const Call& call) {
  auto first = iterate(call.self(), call.budget)->next();
  return first ? *first : Value::undefined("no first item, the sequence was empty");
}

/// Refuses what Python cannot walk backwards.
std::vector<Value> reversible(const Call& call) {
  const Value& self = call.self();
  if (!length(self)) throw complaint("found {}, expected a sequence", describe(self));
  return call.self_values();
}

Value last_filter(const Call& call) {
  const std::vector<Value> values = reversible(call);
  return values.empty() ? Value::undefined("no last item, the sequence was empty") : values.back();
}

Value reverse_filter(const Call& call) {
  const Value& self = call.self();
  if (self.is(Kind::kString)) {
    return slice(self, None{}, None{}, std::int64_t{-1}, call.budget);
  }
  std::vector<Value> values = call.self_values();
  std::reverse(values.begin(), values.end());
  if (!length(self)) return Value::list(std::move(values));
  return Value(std::shared_ptr<Object>(iterator_over(std::move(values))));
}

Value list_filter(const Call& call) {
  return Value::list(call.self_values());
}

Value sort_filter(const Call& call) {
  const bool case_sensitive = call.truth(1, false);
  std::vector<Value> paths{call.get(2)};
  if (paths[0].is(Kind::kString)) {
    const std::vector<std::string> parts = split(paths[0].bytes(), ",");
    paths.assign(parts.size(), Value());
    std::ranges::transform(parts, paths.begin(),
                           [](const auto& part) { return Value::text(part); });
  }
  std::vector<Pair> pairs;
  for (const Value& value : call.self_values()) {
    std::vector<Value> keys;
    for (const Value& path : paths) {
      keys.push_back(key_of(call, at_path(value, path, None{}, call.budget), case_sensitive));
    }
    pairs.emplace_back(Value::list(std::move(keys)), value);
  }
  sort_by_key(pairs, reverses(call, 0), call.budget);
  return Value::list(values_in(std::move(pairs)));
}

Value dictsort_filter(const Call& call) {
  if (!call.self().is(Kind::kDict)) {
    throw complaint("found {}, expected a dict", describe(call.self()));
  }
  const std::string_view by = call.has(1) ? call.text(1).bytes() : "key";
  if (by != "key" && by != "value") {
    throw complaint("found \"{}\", expected \"key\" or \"value\"", printable(shorten(by, 40)));
  }
  std::vector<Pair> pairs;
  for (const auto& [key, value] : call.self().as_dict().items) {
    call.budget.elements(2);
    pairs.emplace_back(key_of(call, by == "key" ? key : value, call.truth(0, false)),
                       Value::tuple({key, value}));
  }
  sort_by_key(pairs, reverses(call, 2), call.budget);
  return Value::list(values_in(std::move(pairs)));
}

Value groupby_filter(const Call& call) {
  const bool case_sensitive = call.truth(2, false);
  const auto group_of = [&](const Value& value) {
    return at_path(value, call.get(0), call.get(1), call.budget);
  };
  std::vector<Pair> pairs;
  for (const Value& value : call.self_values()) {
    pairs.emplace_back(key_of(call, group_of(value), case_sensitive), value);
  }
  sort_by_key(pairs, false, call.budget);
  std::vector<Value> groups;
  for (std::size_t begin = 0, end = 0; begin < pairs.size(); begin = end) {
    std::vector<Value> values;
    for (; end < pairs.size() &&
           (end == begin || equal(pairs[begin].first, pairs[end].first, call.budget));
         ++end) {
      values.push_back(pairs[end].second);
    }
    groups.push_back(Value::tuple({group_of(values[0]), Value::list(values)}, {"grouper", "list"}));
  }
  return Value::list(std::move(groups));
}

Value unique_filter(const Call& call) {
  std::vector<Value> seen, out;
  for (const Value& value : call.self_values()) {
    Value key =
        key_of(call, at_path(value, call.get(1), None{}, call.budget), call.truth(0, false));
    require_hashable(key);
    const auto same = [&](const Value& other) { return equal(key, other, call.budget); };
    if (std::ranges::any_of(seen, same)) continue;
    seen.push_back(std::move(key));
    out.push_back(value);
  }
  return Value(std::shared_ptr<Object>(iterator_over(std::move(out))));
}

/// The first of the least or greatest values.
Value extreme(const Call& call, bool greatest) {
  const std::vector<Value> values = call.self_values();
  if (values.empty()) return Value::undefined("no aggregated item, the sequence was empty");
  const auto key = [&](const Value& value) {
    return key_of(call, at_path(value, call.get(1), None{}, call.budget), call.truth(0, false));
  };
  std::size_t best = 0;
  Value best_key = key(values[0]);
  for (std::size_t i = 1; i < values.size(); ++i) {
    Value other = key(values[i]);
    const auto sign = order(other, best_key, call.budget);
    if (greatest ? sign > 0 : sign < 0) {
      best = i;
      best_key = std::move(other);
    }
  }
  return values[best];
}

Value sum_filter(const Call& call) {
  Value out = call.has(1) ? call.get(1) : Value(std::int64_t{0});
  if (out.is(Kind::kString))
    throw complaint("found {} to begin with, expected none", describe(out));
  for (const Value& value : call.self_values()) {
    out = calculate(Operator::kAdd, out, at_path(value, call.get(0), None{}, call.budget),
                    call.budget);
  }
  return out;
}

Value batch_filter(const Call& call) {
  const std::int64_t size = call.integer(0, 0);
  const auto is_full = [&](const std::vector<Value>& row) {
    return static_cast<std::int64_t>(row.size()) == size;
  };
  std::vector<Value> rows, row;
  for (const Value& value : call.self_values()) {
    if (is_full(row)) rows.push_back(Value::list(std::exchange(row, {})));
    row.push_back(value);
  }
  const bool fills = !row.empty() && !call.get(1).is(Kind::kNone);
  while (fills && static_cast<std::int64_t>(row.size()) < size) {
    call.budget.elements(1);
    row.push_back(call.get(1));
  }
  if (!row.empty()) rows.push_back(Value::list(std::move(row)));
  return Value(std::shared_ptr<Object>(iterator_over(std::move(rows))));
}

Value slice_filter(const Call& call) {
  const std::vector<Value> values = call.self_values();
  const std::int64_t slices = call.integer(0, 0);
  if (slices == 0) throw complaint("found 0 slices, expected some");
  const std::size_t count = slices < 0 ? 0 : static_cast<std::size_t>(slices);
  std::vector<Value> rows;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < count; ++i) {
    call.budget.elements(2);
    const bool longer = i < values.size() % count;
    const std::size_t end = begin + values.size() / count + (longer ? 1 : 0);
    std::vector<Value> row(values.begin() + static_cast<std::ptrdiff_t>(begin),
                           values.begin() + static_cast<std::ptrdiff_t>(end));
    if (!longer && !call.get(1).is(Kind::kNone)) row.push_back(call.get(1));
    rows.push_back(Value::list(std::move(row)));
    begin = end;
  }
  return Value(std::shared_ptr<Object>(iterator_over(std::move(rows))));
}

Value items_filter(const Call& call) {
  const Value& self = call.self();
  if (self.is(Kind::kUndefined)) return Value(std::shared_ptr<Object>(iterator_over({})));
  if (!self.is(Kind::kDict)) throw complaint("found {}, expected a dict", describe(self));
  call.budget.elements(3 * self.as_dict().items.size());
  return Value(std::shared_ptr<Object>(view_of(self, "items").as_object()->iterate()));
}

Value default_filter(const Call& call) {
  const Value& self = call.self();
  if (!self.is(Kind::kUndefined) && (!call.truth(1, false) || truth(self))) return self;
  return call.has(0) ? call.get(0) : Value::text("");
}

Value attr_filter(const Call& call) {
  const std::string_view name = call.text(0).bytes();
  if (call.self().is(Kind::kUndefined)) refuse_undefined(call.self());
  if (auto own = own_attribute(call.self(), name)) return *own;
  return Value::undefined(
      fmt::format("'{} object' has no attribute '{}'", type_name(call.self()), shorten(name, 60)));
}

constexpr Function kListFilters[] = {
    {"length", "", length_filter},
    {"count", "", length_filter},
    {"default", "default_value? boolean?", default_filter},
    {"d", "default_value? boolean?", default_filter},
    {"first", "", first_filter},
    {"last", "", last_filter},
    {"list", "", list_filter},
    {"items", "", items_filter},
    {"reverse", "", reverse_filter},
    {"sort", "reverse? case_sensitive? attribute?", sort_filter},
    {"dictsort", "case_sensitive? by? reverse?", dictsort_filter},
    {"groupby", "attribute default? case_sensitive?", groupby_filter},
    {"unique", "case_sensitive? attribute?", unique_filter},
    {"min", "case_sensitive? attribute?", [](const Call& c) { return extreme(c, false); }},
    {"max", "case_sensitive? attribute?", [](const Call& c) { return extreme(c, true); }},
    {"sum", "attribute? start?", sum_filter},
    {"batch", "linecount fill_with?", batch_filter},
    {"slice", "slices fill_with?", slice_filter},
    {"attr", "name", attr_filter},
};

}  // namespace

std::span<const Function> list_filters() {
  return kListFilters;
}

}  // namespace turnbench::jinja
