#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

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
      const auto found = scope->variables_.find(name);
      if (found != scope->variables_.end()) return &found->second;
    }
    return nullptr;
  }

  /// Sets a variable of this scope itself.
  void set(const std::string& name, Value value) { variables_[name] = std::move(value); }

 private:
  std::shared_ptr<Scope> parent_;
  std::map<std::string, Value, std::less<>> variables_;
};

}  // namespace turnbench::jinja
