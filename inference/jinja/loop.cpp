#include "inference/jinja/loop.h"

#include <algorithm>

#include "inference/jinja/compare.h"

namespace turnbench::jinja {
namespace {

/// `loop.cycle` or `loop.changed`.
class LoopMethod : public Object {
 public:
  LoopMethod(std::shared_ptr<Loop> loop, bool cycles) : loop_(std::move(loop)), cycles_(cycles) {}

  std::string type_name() const override { return "method"; }
  int depth() const override { return loop_->depth(); }
  bool is_callable() const override { return true; }
  Value call(Runtime&, Arguments arguments) override {
    if (!arguments.named.empty()) throw complaint("found a named argument, expected none");
    if (cycles_) return loop_->cycle(arguments.values);
    return loop_->changed(std::move(arguments.values));
  }

 private:
  std::shared_ptr<Loop> loop_;
  bool cycles_;
};

}  // namespace

std::optional<Value> Loop::next() {
  std::optional<Value> out = peek();
  if (!out) return std::nullopt;
  ahead_.pop_front();
  ++taken_;
  before_ = std::exchange(current_, out);
  return out;
}

const std::optional<Value>& Loop::peek() const {
  if (ahead_.empty()) {
    budget_.steps(1);
    if (auto value = values_->next()) ahead_.push_back(std::move(*value));
  }
  peeked_ = ahead_.empty() ? std::nullopt : std::optional(ahead_.front());
  return peeked_;
}

std::size_t Loop::count() const {
  if (!length_) {
    while (auto value = values_->next()) {
      budget_.elements(1);
      ahead_.push_back(std::move(*value));
    }
    length_ = taken_ + ahead_.size();
  }
  return *length_;
}

std::optional<Value> Loop::attribute(std::string_view name) {
  if (name == "index") return Value::size(taken_);
  if (name == "index0") return Value::size(taken_ - 1);
  if (name == "first") return Value(taken_ == 1);
  if (name == "last") return Value(!peek().has_value());
  if (name == "length") return Value::size(count());
  if (name == "revindex") return Value::size(count() - taken_ + 1);
  if (name == "revindex0") return Value::size(count() - taken_);
  if (name == "depth") return Value::size(level_ + 1);
  if (name == "depth0") return Value::size(level_);
  if (name == "previtem") {
    return before_ ? *before_ : Value::undefined("there is no previous item");
  }
  if (name == "nextitem") {
    const std::optional<Value>& after = peek();
    return after ? *after : Value::undefined("there is no next item");
  }
  if (name == "cycle" || name == "changed") {
    return Value(std::make_shared<LoopMethod>(shared_from_this(), name == "cycle"));
  }
  return std::nullopt;
}

Value Loop::call(Runtime&, Arguments arguments) {
  if (!recurse_) throw complaint("found a call of loop, expected `recursive` in its for");
  if (arguments.values.size() != 1 || !arguments.named.empty()) {
    throw complaint("found {} arguments for loop, expected one", arguments.values.size());
  }
  return recurse_(arguments.values[0], level_ + 1);
}

bool Loop::print(TextBuilder& out) const {
  out.add(fmt::format("<LoopContext {}/{}>", taken_, count()));
  return true;
}

Value Loop::cycle(const std::vector<Value>& values) const {
  if (values.empty()) throw complaint("found no items to cycle through, expected some");
  return values[(taken_ - 1) % values.size()];
}

Value Loop::changed(std::vector<Value> values) {
  const bool same =
      compared_ && std::ranges::equal(*compared_, values, [&](const Value& a, const Value& b) {
        return equal(a, b, budget_);
      });
  if (!same) compared_ = std::move(values);
  return !same;
}

}  // namespace turnbench::jinja
