#include <algorithm>

#include "inference/jinja/access.h"
#include "inference/jinja/compare.h"
#include "inference/jinja/library.h"
#include "inference/jinja/print.h"

namespace turnbench::jinja {
namespace {

/// What dict.items(), .keys() and .values() return: not a list, though it can be walked again.
class DictView : public Object {
 public:
  DictView(std::string_view name, Value items) : name_(name), items_(std::move(items)) {}

  std::string type_name() const override { return "dict_" + name_; }
  int depth() const override { return items_.depth(); }
  bool print(TextBuilder& out) const override {
    out.add(type_name() + "(");
    represent(items_, out);
    out.add(")");
    return true;
  }
  std::optional<std::size_t> length() const override { return items_.as_list().items.size(); }
  std::shared_ptr<Iterator> iterate() override {
    auto next = [items = items_, at = std::size_t{0}]() mutable -> std::optional<Value> {
      const std::vector<Value>& all = items.as_list().items;
      return at < all.size() ? std::optional(all[at++]) : std::nullopt;
    };
    return std::make_shared<Iterator>(std::move(next), items_.depth());
  }

 private:
  std::string name_;
  Value items_;
};

Value viewed(const Call& call, std::string_view name) {
  call.budget.elements(3 * call.self().as_dict().items.size());
  return view_of(call.self(), name);
}

Value got(const Call& call) {
  const Value* found = find(call.self().as_dict(), call.get(0), call.budget);
  return found == nullptr ? call.get(1) : *found;
}

Value count_in_list(const Call& call) {
  const std::vector<Value>& items = call.self().as_list().items;
  return Value::size(static_cast<std::size_t>(std::ranges::count_if(
      items, [&](const Value& item) { return equal(item, call.get(0), call.budget); })));
}

Value index_in_list(const Call& call) {
  const std::vector<Value>& items = call.self().as_list().items;
  const auto size = static_cast<std::int64_t>(items.size());
  const auto bound = [&](std::size_t i, std::int64_t fallback) {
    const std::int64_t given = call.integer(i, fallback);
    return std::clamp<std::int64_t>(given < 0 ? given + size : given, 0, size);
  };
  for (std::int64_t i = bound(1, 0), end = bound(2, size); i < end; ++i) {
    if (equal(items[static_cast<std::size_t>(i)], call.get(0), call.budget)) return i;
  }
  throw complaint("found no {} in the list, expected one", describe(call.get(0)));
}

constexpr Function kDictMethods[] = {
    {"items", "", [](const Call& c) { return viewed(c, "items"); }},
    {"keys", "", [](const Call& c) { return viewed(c, "keys"); }},
    {"values", "", [](const Call& c) { return viewed(c, "values"); }},
    {"get", "/ key default?", got},
    {"copy", "", [](const Call& c) { return c.self(); }},
};

constexpr Function kListMethods[] = {
    {"count", "/ value", count_in_list},
    {"index", "/ value start? end?", index_in_list},
    {"copy", "", [](const Call& c) { return c.self(); }},
};

}  // namespace

Value view_of(const Value& dict, std::string_view name) {
  std::vector<Value> items;
  for (const auto& [key, value] : dict.as_dict().items) {
    items.push_back(name == "items" ? Value::tuple({key, value}) : name == "keys" ? key : value);
  }
  return Value(std::make_shared<DictView>(name, Value::list(std::move(items))));
}

std::span<const Function> container_methods(Kind kind) {
  if (kind == Kind::kDict) return kDictMethods;
  if (kind == Kind::kList) return kListMethods;
  if (kind == Kind::kTuple) return std::span(kListMethods).first(2);
  return {};
}

}  // namespace turnbench::jinja
