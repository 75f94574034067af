#pragma once

#include <memory>
#include <utility>

namespace turnbench {

/// Derives from `Base`, a policy interface or a part of a policy.  Implements `clone` by the copy
/// constructor of `Policy`: `class Quest : public Cloned<Quest, TopKSelection>`.
template <typename Policy, typename Base>
class Cloned : public Base {
 public:
  using Base::Base;
  decltype(std::declval<const Base&>().clone()) clone() const override {
    return std::make_unique<Policy>(static_cast<const Policy&>(*this));
  }
};

}  // namespace turnbench
