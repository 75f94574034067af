#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "inference/jinja/object.h"

namespace turnbench::jinja {

/// The variables of a block and, behind them, those of the blocks around it.
class Scope : public Object {
 public:
  explicit Scope(std::shared_ptr<Scope> parent) : parent_(std::move(parent)) {}

  std::string type_name() const override { return "scope"; }
  void forget() override { variables_.clear(); }

  /// The innermost variable of a name, or nullptr.
  const Value* find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_.get()) {
      for (const auto& [other, value] : scope->variables_) {
        if (other == name) return &value;
      }
    }
    return nullptr;
  }

  /// Sets a variable of this scope itself.
  void set(std::string_view name, Value value) {
    for (auto& [other, present] : variables_) {
      if (other != name) continue;
      present = std::move(value);
      return;
    }
    variables_.emplace_back(name, std::move(value));
  }

 private:
  std::shared_ptr<Scope> parent_;
  std::vector<std::pair<std::string, Value>> variables_;
};

}  // namespace turnbench::jinja
