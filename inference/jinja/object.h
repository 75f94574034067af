#pragma once

#include <functional>

#include "inference/jinja/value.h"

namespace turnbench::jinja {

class Iterator;
class Runtime;

/// The arguments of a call.
struct Arguments {
  std::vector<Value> values;
  std::vector<std::pair<std::string, Value>> named;
};

/// A value that is none of the plain ones.  What an object does not say, it cannot do.
class Object {
 public:
  virtual ~Object() = default;

  virtual std::string type_name() const = 0;
  virtual int depth() const { return 0; }
  /// What `{{ object }}` prints; none for what Python prints with an address in memory.
  virtual bool print(TextBuilder&) const { return false; }
  virtual std::optional<Value> attribute(std::string_view /*name*/) { return std::nullopt; }
  virtual std::optional<std::size_t> length() const { return std::nullopt; }
  /// The element at `index` < length(), if it is a sequence.
  virtual std::optional<Value> item(std::size_t /*index*/) const { return std::nullopt; }
  virtual std::shared_ptr<Iterator> iterate() { return nullptr; }
  virtual bool is_callable() const { return false; }
  virtual Value call(Runtime&, Arguments);
  /// Drops the values that it holds, at the end of a rendering.
  virtual void forget() {}
};

/// A generator: its values can be taken once, and are computed when they are.
class Iterator : public Object, public std::enable_shared_from_this<Iterator> {
 public:
  using Next = std::function<std::optional<Value>()>;

  /// `depth` is that of what it takes its values from; refuses generators of generators that are
  /// nested too deep.
  Iterator(Next next, int depth);

  std::optional<Value> next() { return next_(); }
  std::string type_name() const override { return "generator"; }
  int depth() const override { return depth_; }
  std::shared_ptr<Iterator> iterate() override { return shared_from_this(); }

 private:
  Next next_;
  int depth_;
};

/// A generator of the values of a list that it keeps.
std::shared_ptr<Iterator> iterator_over(std::vector<Value> values);

}  // namespace turnbench::jinja
