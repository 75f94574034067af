#pragma once

#include "inference/jinja/object.h"

namespace turnbench::jinja {

/// What `namespace(...)` makes: the one value whose attributes a template can set.
class Namespace : public Object {
 public:
  explicit Namespace(std::vector<std::pair<Value, Value>> items) : items_(std::move(items)) {}

  std::string type_name() const override { return "Namespace"; }
  bool print(TextBuilder& out) const override;
  std::optional<Value> attribute(std::string_view name) override;
  void forget() override { items_.clear(); }

  /// `{% set namespace.name = value %}`
  void set(std::string_view name, Value value, Budget& budget);

 private:
  std::vector<std::pair<Value, Value>> items_;
};

}  // namespace turnbench::jinja
