#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inference/backend/backend.h"
#include "inference/policy/policy.h"

namespace turnbench {

/// What stands for chunks of a layer's keys when a step chooses among them (Sun et al., ShadowKV,
/// 2024): of each KV set the mean of a chunk's keys after RoPE (its landmark), but for those chunks
/// in which some key points elsewhere, which are read in any case.  Sequences share it.
class ChunkLandmarks {
 public:
  struct Settings {
    int chunk = 8;     ///< tokens
    int first = 0;     ///< chunk
    int end = 0;       ///< chunk
    int outliers = 0;  ///< chunks of each set that have no landmark; at most all
  };
  ChunkLandmarks(const LayerView& view, const Settings& settings);

  const Settings& settings() const { return settings_; }
  /// Chunks of a set, ascending: those whose least cosine with the landmark is lowest.
  std::span<const std::int32_t> outliers(std::size_t set) const { return outliers_[set]; }
  /// The others, ascending.
  std::span<const std::int32_t> chunks(std::size_t set) const { return chunks_[set]; }
  /// Of `chunks(set)`: [chunks, head_dim] in the dtype of the cache, in the backend's memory; as
  /// bounds that coincide.
  PageBounds landmarks(std::size_t set) const;

 private:
  Settings settings_;
  std::int64_t row_bytes_;
  std::vector<std::vector<std::int32_t>> outliers_, chunks_;
  Buffer landmarks_;  ///< of all sets, which have equally many
  std::byte* data_ = nullptr;
};

}  // namespace turnbench
