#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/random.h"
#include "inference/policy/background.h"
#include "inference/policy/policy.h"

namespace turnbench {

/// Clusters of consecutive tokens of each KV set of a layer, by the direction of their keys
/// (cosine_k_means).  Computed by background tasks; may be shared by sequences.
class KeyClusters {
 public:
  /// The tokens of one set to cluster, and the number of clusters: at most one per token, 0 if
  /// there are none.
  struct Part {
    SlotRange slots;
    std::int32_t clusters = 0;
  };
  struct Settings {
    int iterations = 20;
    /// Draws the tokens that are the initial centroids: the same for all sets with equally many
    /// tokens.
    Random random;
  };

  /// Starts to cluster a part of each set of the view.  Copies their keys immediately; the tasks
  /// own the copy.
  KeyClusters(const LayerView& view, std::span<const Part> parts, const Settings& settings);

  /// Waits for the tasks.
  void wait() const { job_->wait(); }

  std::int32_t clusters(std::size_t set) const { return work_->sets[set].part.clusters; }
  /// The number of clusters in the sets before `set`.
  std::int64_t clusters_before(std::size_t set) const { return work_->sets[set].before; }
  std::int64_t tokens(std::size_t set) const;
  std::size_t sets() const { return work_->sets.size(); }
  /// One past the last slot of a set that is clustered.
  std::int32_t end(std::size_t set) const { return work_->sets[set].part.slots.end; }

  // After `wait`:
  /// Centroids of all sets, set by set: [clusters, head_dim], in host memory.
  MatrixView<const float> centroids() const;
  /// Slots of a cluster's tokens, ascending.
  std::span<const std::int32_t> members(std::size_t set, std::int32_t cluster) const;

 private:
  /// One set: the input and output of a task.
  struct Set {
    Part part;
    std::int64_t before = 0;            ///< number of clusters in the sets before it
    std::vector<float> keys;            ///< [tokens, head_dim]; empty when done
    std::vector<std::int32_t> slots;    ///< [tokens], cluster after cluster
    std::vector<std::int32_t> offsets;  ///< [clusters + 1], in `slots`
  };
  struct Work {
    std::vector<Set> sets;
    std::vector<float> centroids;  ///< of all sets
  };

  static void find(const Settings& settings, Set& set, MatrixView<const float> keys,
                   MatrixView<float> centroids);

  std::int64_t head_dim_;
  std::shared_ptr<Work> work_ = std::make_shared<Work>();
  std::shared_ptr<BackgroundJob> job_;
};

}  // namespace turnbench
