#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "inference/policy.h"

namespace turnbench {

/// The patterns that a dialogue's turns planned, by layer and first row of the turn.
using TurnPlans = std::map<std::pair<int, std::int32_t>, std::vector<HeadPattern>>;

/// Plans the rows of each turn once: what stands in `plans` is repeated, whatever else is asked of
/// the policy joins it.
class PlansOnce : public PrefillPolicy {
 public:
  /// `policy` is not null; `plans` is shared by all that prefill the dialogue.
  PlansOnce(std::unique_ptr<PrefillPolicy> policy, std::shared_ptr<TurnPlans> plans)
      : policy_(std::move(policy)), plans_(std::move(plans)) {}

  std::unique_ptr<PrefillPolicy> clone() const override {
    return std::make_unique<PlansOnce>(policy_->clone(), plans_);
  }
  bool continues() const override { return policy_->continues(); }
  bool recomputes_answer() const override { return policy_->recomputes_answer(); }
  std::vector<HeadPattern> plan(const LayerView& view) override {
    const auto [at, is_new] = plans_->try_emplace({view.layer, view.first_row});
    if (is_new) at->second = policy_->plan(view);
    return at->second;
  }

 private:
  std::unique_ptr<PrefillPolicy> policy_;
  std::shared_ptr<TurnPlans> plans_;
};

}  // namespace turnbench
