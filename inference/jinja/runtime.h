#pragma once

#include "inference/jinja/date_time.h"
#include "inference/jinja/object.h"

namespace turnbench::jinja {

struct Function;

/// What functions need of the rendering that calls them.
class Runtime {
 public:
  Runtime(const Limits& limits, const DateTime& time) : budget(limits), now(time) {}
  /// Ends the cycles of values that refer to each other.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// `callee(arguments)`
  Value call(const Value& callee, Arguments arguments);
  /// `value|name(arguments)` and `value is name(arguments)`; refuse names that are not known.
  Value filter(std::string_view name, const Value& value, Arguments arguments);
  bool test(std::string_view name, const Value& value, Arguments arguments);
  /// One of the library's functions; `self` is the value in front of it, if any.
  Value run(const Function& function, const Value& self, Arguments arguments);

  /// Remembers an object that can hold values which refer back to it.
  std::shared_ptr<Object> keep(std::shared_ptr<Object> object);

  Budget budget;
  const DateTime now;

 private:
  std::vector<std::shared_ptr<Object>> kept_;
};

}  // namespace turnbench::jinja
