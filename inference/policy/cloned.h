#pragma once

#include <memory>
#include <utility>

namespace turnbench {

/// `Base`, an interface or a part of a policy, with `clone` as the copy of a `Policy`: `class
/// Quest : public Cloned<Quest, TopKSelection>`.
template <typename Policy, typename Base>
class Cloned : public Base {
 public:
  using Base::Base;
  decltype(std::declval<const Base&>().clone()) clone() const override {
    return std::make_unique<Policy>(static_cast<const Policy&>(*this));
  }
};

}  // namespace turnbench
