#include <algorithm>

#include "common/text.h"
#include "inference/jinja/access.h"
#include "inference/jinja/compare.h"
#include "inference/jinja/library.h"
#include "inference/jinja/namespace.h"
#include "inference/jinja/print.h"

namespace turnbench::jinja {
namespace {

constexpr std::size_t kLongestRange = 100'000;  // that of Jinja2's sandbox
constexpr std::size_t kMostAttributes = 1000;   // of a namespace

class Range : public Object {
 public:
  Range(std::int64_t start, std::int64_t stop, std::int64_t step, std::size_t count)
      : start_(start), stop_(stop), step_(step), count_(count) {}

  std::string type_name() const override { return "range"; }
  bool print(TextBuilder& out) const override {
    out.add(step_ == 1 ? fmt::format("range({}, {})", start_, stop_)
                       : fmt::format("range({}, {}, {})", start_, stop_, step_));
    return true;
  }
  std::optional<std::size_t> length() const override { return count_; }
  std::optional<Value> item(std::size_t index) const override {
    return start_ + static_cast<std::int64_t>(index) * step_;
  }
  std::shared_ptr<Iterator> iterate() override {
    auto next = [range = *this, at = std::size_t{0}]() mutable -> std::optional<Value> {
      return at < range.count_ ? range.item(at++) : std::nullopt;
    };
    return std::make_shared<Iterator>(std::move(next), 0);
  }

  Value slice(std::int64_t first, std::int64_t step, std::size_t count) const {
    std::int64_t stride = 0, begin = 0, end = 0;
    if (__builtin_mul_overflow(step_, step, &stride) ||
        __builtin_mul_overflow(first, step_, &begin) ||
        __builtin_add_overflow(start_, begin, &begin) ||
        __builtin_mul_overflow(static_cast<std::int64_t>(count), stride, &end) ||
        __builtin_add_overflow(begin, end, &end)) {
      throw complaint("found a range beyond 64 bits, expected smaller numbers");
    }
    return Value(std::make_shared<Range>(begin, end, stride, count));
  }

 private:
  std::int64_t start_, stop_, step_;
  std::size_t count_;
};

Value range(const Call& call) {
  const bool one = !call.has(1);
  const std::int64_t start = one ? 0 : call.integer(0, 0);
  const std::int64_t stop = call.integer(one ? 0 : 1, 0), step = call.integer(2, 1);
  if (step == 0) throw complaint("found a range with step 0, expected another step");
  // Differences of integers fit into 64 bits without a sign.
  const auto bits = [](std::int64_t number) { return static_cast<std::uint64_t>(number); };
  const bool empty = step < 0 ? start <= stop : stop <= start;
  const std::uint64_t distance = step < 0 ? bits(start) - bits(stop) : bits(stop) - bits(start);
  const std::uint64_t stride = step < 0 ? 0 - bits(step) : bits(step);
  const std::uint64_t count = empty ? 0 : (distance - 1) / stride + 1;
  if (count > kLongestRange) {
    throw complaint("found a range of more than {} numbers, expected at most so many",
                    kLongestRange);
  }
  return Value(std::make_shared<Range>(start, stop, step, count));
}

/// What dict() and namespace() take: a dict or pairs, and names.
std::vector<std::pair<Value, Value>> items_given(const Call& call) {
  std::vector<std::pair<Value, Value>> items;
  const Value source = call.get(0);
  if (call.has(0) && source.is(Kind::kDict)) {
    call.budget.elements(2 * source.as_dict().items.size());
    items = source.as_dict().items;
  } else if (call.has(0)) {
    for (const Value& pair : values_of(source, call.budget)) {
      std::vector<Value> two = values_of(pair, call.budget);
      if (two.size() != 2) throw complaint("found {}, expected a pair", describe(pair));
      insert(items, std::move(two[0]), std::move(two[1]), call.budget);
    }
  }
  for (const auto& [name, value] : call.more().named) {
    insert(items, call.make(name), value, call.budget);
  }
  return items;
}

Value dict(const Call& call) {
  return Value::dict(items_given(call));
}

void refuse_underscore(std::string_view name) {
  if (!name.starts_with('_')) return;
  throw complaint("found the namespace attribute {}, expected no underscore in front",
                  shorten(name, 40));
}

Value make_namespace(const Call& call) {
  auto items = items_given(call);
  if (items.size() > kMostAttributes) {
    throw complaint("found {} attributes for a namespace, expected at most {}", items.size(),
                    kMostAttributes);
  }
  for (const auto& [key, value] : items) {
    if (key.is(Kind::kString)) refuse_underscore(key.bytes());
  }
  return Value(call.runtime.keep(std::make_shared<Namespace>(std::move(items))));
}

/// A function that an object keeps for itself.
class Method : public Object {
 public:
  explicit Method(std::function<Value()> run) : run_(std::move(run)) {}
  std::string type_name() const override { return "method"; }
  bool is_callable() const override { return true; }
  Value call(Runtime&, Arguments arguments) override {
    if (!arguments.values.empty() || !arguments.named.empty()) {
      throw complaint("found arguments, expected none");
    }
    return run_();
  }

 private:
  std::function<Value()> run_;
};

class Cycler : public Object, public std::enable_shared_from_this<Cycler> {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}

  std::string type_name() const override { return "Cycler"; }
  int depth() const override { return depth_over(items_); }
  std::optional<Value> attribute(std::string_view name) override {
    const auto self = shared_from_this();
    if (name == "current") return items_[at_];
    if (name == "next") {
      return method([self] { return self->next(); });
    }
    if (name == "reset") {
      return method([self]() -> Value { return self->at_ = 0, None{}; });
    }
    return std::nullopt;
  }

 private:
  Value next() {
    const std::size_t here = at_;
    at_ = (at_ + 1) % items_.size();
    return items_[here];
  }

  static Value method(std::function<Value()> run) {
    return Value(std::make_shared<Method>(std::move(run)));
  }

  std::vector<Value> items_;
  std::size_t at_ = 0;
};

Value cycler(const Call& call) {
  if (call.more().values.empty()) throw complaint("found no items to cycle through, expected some");
  return Value(std::make_shared<Cycler>(call.more().values));
}

class Joiner : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string type_name() const override { return "Joiner"; }
  int depth() const override { return separator_.depth(); }
  bool is_callable() const override { return true; }
  Value call(Runtime&, Arguments) override {
    return std::exchange(used_, true) ? separator_ : Value::text("");
  }

 private:
  Value separator_;
  bool used_ = false;
};

Value joiner(const Call& call) {
  return Value(std::make_shared<Joiner>(call.has(0) ? call.get(0) : Value::text(", ")));
}

Value raise_exception(const Call& call) {
  const String message = to_string(call.get(0), call.budget);
  throw complaint("the template refuses: {}", printable(shorten(message.text->bytes(), 600)));
}

Value strftime_now(const Call& call) {
  return call.make(format_time(call.runtime.now, call.text(0).bytes()));
}

constexpr Function kGlobals[] = {
    {"range", "/ start stop? step?", range},
    {"dict", "/ source? **", dict},
    {"namespace", "/ source? **", make_namespace},
    {"cycler", "*", cycler},
    {"joiner", "sep?", joiner},
    {"raise_exception", "message", raise_exception},
    {"strftime_now", "format", strftime_now},
};

}  // namespace

bool Namespace::print(TextBuilder& out) const {
  const Budget::Level level(out.budget());
  out.add("<Namespace {");
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (i > 0) out.add(", ");
    represent(items_[i].first, out);
    out.add(": ");
    represent(items_[i].second, out);
  }
  out.add("}>");
  return true;
}

std::optional<Value> Namespace::attribute(std::string_view name) {
  for (const auto& [key, value] : items_) {
    if (key.is(Kind::kString) && key.bytes() == name && !name.starts_with('_')) return value;
  }
  return std::nullopt;
}

void Namespace::set(std::string_view name, Value value, Budget& budget) {
  refuse_underscore(name);
  if (items_.size() == kMostAttributes && !attribute(name)) {
    throw complaint("found more than {} attributes of a namespace, expected at most so many",
                    kMostAttributes);
  }
  insert(items_, Value::text(name), std::move(value), budget);
}

Value slice_of_range(const Value& range, std::int64_t first, std::int64_t step, std::size_t count) {
  return dynamic_cast<const Range&>(*range.as_object()).slice(first, step, count);
}

std::span<const Function> globals() {
  return kGlobals;
}

}  // namespace turnbench::jinja
