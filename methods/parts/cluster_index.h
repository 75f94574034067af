#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "inference/policy/policy.h"
#include "methods/parts/key_clusters.h"

namespace turnbench {

/// Clusters of a layer's keys, in batches of tokens that were clustered together: those of prompts,
/// then those of the answer (Liu et al., ClusterKV, 2024).  Sequences that continue from the same
/// tokens share the batches of a prompt.
class ClusterIndex {
 public:
  void clear() { *this = {}; }
  /// Removes the batches of the answer.
  void forget_answer() { batches_.resize(prompt_batches_); }
  bool empty() const { return batches_.empty(); }
  /// The number of sets; 0 if the index is empty.
  std::size_t sets() const { return empty() ? 0 : batches_.back().clusters->sets(); }
  /// One past the last slot of a set that is in a cluster; 0 if the index is empty.
  std::int32_t end(std::size_t set) const {
    return empty() ? 0 : batches_.back().clusters->end(set);
  }

  /// Starts to cluster a part of each set of a prompt.  key: identifies the settings.
  void add_prompt(const LayerView& view, std::span<const KeyClusters::Part> parts,
                  const KeyClusters::Settings& settings, const std::string& key);
  /// Starts to cluster a part of each set of an answer.
  void add_answer(const LayerView& view, std::span<const KeyClusters::Part> parts,
                  const KeyClusters::Settings& settings);

  /// The scores of each query head's clusters: the products of its query and the centroids.
  class Scores {
   public:
    /// [clusters of the head's set], batch by batch.
    std::span<const float> of(std::size_t head, std::size_t set) const {
      const std::int64_t row = static_cast<std::int64_t>(head) % heads_per_set_;
      return std::span(all_).subspan(first_[set] + row * clusters_[set], clusters_[set]);
    }

   private:
    friend class ClusterIndex;
    std::vector<std::int64_t> first_, clusters_;  // [sets]: in `all_`; of each head
    std::int64_t heads_per_set_ = 1;
    std::vector<float> all_;
  };
  /// Waits for all clusters and scores them.
  Scores score(const LayerView& view);
  /// Appends the first `count` tokens, or all if there are fewer, of the clusters of a set, from
  /// the highest score on, to `slots` in ascending order.  size: tokens of the set.
  void append_best(std::size_t set, std::span<const float> scores, std::int32_t size, int count,
                   std::vector<std::int32_t>& slots) const;

 private:
  struct Batch {
    std::shared_ptr<const KeyClusters> clusters;
    std::shared_ptr<const Buffer> centroids = {};  // in the backend's memory

    /// Waits for the clusters and copies their centroids to the device.
    void wait(const std::shared_ptr<Memory>& memory);
  };
  /// The tokens of a cluster, as numbered in all batches.
  std::span<const std::int32_t> members(std::size_t set, std::int32_t cluster) const;

  std::vector<Batch> batches_;  // of the prompts, then of the answer
  std::size_t prompt_batches_ = 0;
};

}  // namespace turnbench
