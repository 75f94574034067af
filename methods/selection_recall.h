#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "inference/policy.h"

namespace turnbench {

/// Mean over the query heads of a layer: the share of the k tokens with the head's highest
/// attention that are among the k tokens that the selection reads for it.  Tokens whose attention
/// is 0 in float32 have no rank and do not count: of a head that attends to three tokens, k is
/// three at most.  `view` is the step's, and its statistics know one row.
double selection_recall(const LayerView& view, const Selection& selection);

/// A policy that selects as another one does, and shows what decode steps read.
class WatchedSelection : public SelectionPolicy {
 public:
  using Watch = std::function<void(const LayerView&, const Selection&)>;
  WatchedSelection(std::unique_ptr<SelectionPolicy> policy, Watch watch)
      : policy_(std::move(policy)), watch_(std::move(watch)) {}

  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<WatchedSelection>(policy_->clone(), watch_);
  }
  int window() const override { return std::max(1, policy_->window()); }
  bool pre_rope_keys() const override { return policy_->pre_rope_keys(); }
  std::optional<bool> keeps_cache() const override { return policy_->keeps_cache(); }
  void after_prefill(const LayerView& view) override { policy_->after_prefill(view); }
  DeviceNeeds device_needs(const LayerView& view) const override {
    return policy_->device_needs(view);
  }
  std::vector<SlotRange> pinned(int layer, int tokens) const override {
    return policy_->pinned(layer, tokens);
  }
  std::vector<SlotRange> pinned_of_set(int layer, int set, int tokens) const override {
    return policy_->pinned_of_set(layer, set, tokens);
  }
  bool reads_pinned_only() const override { return policy_->reads_pinned_only(); }
  bool loads_by_layer() const override { return policy_->loads_by_layer(); }
  bool rebuilds_keys() const override { return policy_->rebuilds_keys(); }
  std::unique_ptr<Retriever> make_retriever() const override { return policy_->make_retriever(); }
  MethodResource resource(const ModelConfig& config, DType weights) const override {
    return policy_->resource(config, weights);
  }
  DeviceNeeds needs_in_answer(const PromptSize& size) const override {
    return policy_->needs_in_answer(size);
  }
  bool moves_in_answers() const override { return policy_->moves_in_answers(); }
  void begin_step(const StepView& step) override { policy_->begin_step(step); }
  void rebuild_keys(const LayerView& view, const MissingKeys& missing) override {
    policy_->rebuild_keys(view, missing);
  }
  void prefetch(int layer, const IndexPath& path) override { policy_->prefetch(layer, path); }
  std::vector<std::pair<std::string, double>> counters() const override {
    return policy_->counters();
  }
  bool selects_in_prefill() const override { return policy_->selects_in_prefill(); }
  int pass_rows(const DialogueView& dialogue, std::int32_t first, int rows) override {
    return policy_->pass_rows(dialogue, first, rows);
  }
  bool divides_anywhere() const override { return policy_->divides_anywhere(); }
  int prefill_rows(const LayerView& view) override { return policy_->prefill_rows(view); }
  int max_distance() const override { return policy_->max_distance(); }
  void attended(const LayerView& view, MatrixView<const float> lse) override {
    policy_->attended(view, lse);
  }
  Selection select(const LayerView& view) override {
    Selection out = policy_->select(view);
    if (view.generated > 0) watch_(view, out);
    return out;
  }

 private:
  std::unique_ptr<SelectionPolicy> policy_;
  Watch watch_;
};

}  // namespace turnbench
