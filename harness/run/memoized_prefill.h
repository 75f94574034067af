#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "inference/policy/policy.h"

namespace turnbench {

/// The prefill patterns of a dialogue's turns: (layer, first row, rows) -> patterns by head.
using TurnPlans = std::map<std::tuple<int, std::int32_t, int>, std::vector<HeadPattern>>;

/// Wraps a policy and plans the rows of each turn only once: patterns in `plans` are reused, new
/// ones are added.  Not thread-safe.
class MemoizedPrefillPolicy : public PrefillPolicy {
 public:
  /// `policy` must not be null.  `plans` is shared by all prefills of the dialogue.
  MemoizedPrefillPolicy(std::unique_ptr<PrefillPolicy> policy, std::shared_ptr<TurnPlans> plans)
      : policy_(std::move(policy)), plans_(std::move(plans)) {}

  std::unique_ptr<PrefillPolicy> clone() const override {
    return std::make_unique<MemoizedPrefillPolicy>(policy_->clone(), plans_);
  }
  bool reuses_cached_prompt() const override { return policy_->reuses_cached_prompt(); }
  bool recomputes_answer() const override { return policy_->recomputes_answer(); }
  std::vector<HeadPattern> plan(const LayerView& view) override {
    const auto [at, is_new] = plans_->try_emplace({view.layer, view.first_position, view.rows});
    if (is_new) at->second = policy_->plan(view);
    return at->second;
  }

 private:
  std::unique_ptr<PrefillPolicy> policy_;
  std::shared_ptr<TurnPlans> plans_;
};

}  // namespace turnbench
