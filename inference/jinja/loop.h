#pragma once

#include <deque>

#include "inference/jinja/runtime.h"

namespace turnbench::jinja {

/// The variable `loop` of a `for`, which also takes its values one by one.
class Loop : public Object, public std::enable_shared_from_this<Loop> {
 public:
  /// Renders the body for other values, one level deeper; empty if the loop is not recursive.
  using Recurse = std::function<Value(const Value& values, std::size_t depth)>;

  /// `length` is that of the values, if they say it.
  Loop(std::shared_ptr<Iterator> values, std::optional<std::size_t> length, Recurse recurse,
       std::size_t depth, Budget& budget)
      : values_(std::move(values)),
        length_(length),
        recurse_(std::move(recurse)),
        level_(depth),
        budget_(budget) {}

  /// The next value; none at the end.
  std::optional<Value> next();

  std::string type_name() const override { return "LoopContext"; }
  int depth() const override { return values_->depth(); }
  std::optional<Value> attribute(std::string_view name) override;
  std::optional<std::size_t> length() const override { return count(); }
  bool is_callable() const override { return true; }
  Value call(Runtime& runtime, Arguments arguments) override;
  bool print(TextBuilder& out) const override;

  /// `loop.cycle(...)` and `loop.changed(...)`
  Value cycle(const std::vector<Value>& values) const;
  Value changed(std::vector<Value> values);

 private:
  /// How many values there are, for which those to come are taken where nobody knows.
  std::size_t count() const;
  /// The value after the current one, which is kept.
  const std::optional<Value>& peek() const;

  std::shared_ptr<Iterator> values_;
  mutable std::optional<std::size_t> length_;
  Recurse recurse_;
  std::size_t level_;
  Budget& budget_;
  std::size_t taken_ = 0;
  std::optional<Value> before_, current_;
  mutable std::deque<Value> ahead_;  // taken from values_, not yet returned
  mutable std::optional<Value> peeked_;
  std::optional<std::vector<Value>> compared_;
};

}  // namespace turnbench::jinja
