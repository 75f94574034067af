#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inference/backend/backend.h"
#include "inference/policy/policy.h"

namespace turnbench {

/// Representatives of chunks of a layer's keys, by which steps select chunks (Sun et al., ShadowKV,
/// 2024): for each KV set, the mean of a chunk's keys after RoPE (its landmark).  Outlier chunks,
/// in which some key differs in direction, have no landmark and are always read.  Shared by
/// sequences.
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
  /// Outlier chunks of a set, ascending: those with the lowest minimal cosine between a key and the
  /// landmark.
  std::span<const std::int32_t> outliers(std::size_t set) const { return outliers_[set]; }
  /// The others, ascending.
  std::span<const std::int32_t> chunks(std::size_t set) const { return chunks_[set]; }
  /// Landmarks of `chunks(set)`: [chunks, head_dim] in the dtype of the cache, in the backend's
  /// memory, as page bounds with low = high.
  PageBounds landmarks(std::size_t set) const;

 private:
  Settings settings_;
  std::int64_t row_bytes_;
  std::vector<std::vector<std::int32_t>> outliers_, chunks_;
  Buffer landmarks_;  ///< of all sets, equally many per set
  std::byte* data_ = nullptr;
};

}  // namespace turnbench
