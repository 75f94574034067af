#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "inference/policy/policy.h"
#include "methods/parts/chunk_landmarks.h"
#include "methods/parts/low_rank_keys.h"
#include "methods/parts/top_k_selection.h"

namespace turnbench {

/// Landmarks of the chunks of a layer and low-rank factors of its keys (Sun et al., ShadowKV,
/// 2024), extended from turn to turn: the parts of earlier turns are kept.  Sequences that continue
/// from the same tokens share the parts.
class ChunkIndex {
 public:
  struct Size {
    int chunk = 8;     ///< tokens
    int rank = 160;    ///< of the factors
    int chunks = 0;    ///< chunks of the prompt that are indexed
    int outliers = 0;  ///< of each set, if the index is new; a later part has the same share
  };
  /// Extends the index to the end of a turn's prompt.
  void extend(const LayerView& view, const Size& size);

  /// Tokens whose keys have factors.
  int tokens() const { return keys_.empty() ? 0 : keys_.back()->end(); }
  int chunks() const { return landmarks_.empty() ? 0 : landmarks_.back()->settings().end; }
  /// Chunks without landmarks, which are always read, ascending.
  std::vector<std::int32_t> outliers(std::size_t set) const;
  /// The number of chunks with landmarks.
  std::int64_t landmarks(std::size_t set) const;
  /// The chunks of some landmarks.  Both ascend.
  std::vector<std::int32_t> chunks_of(std::size_t set,
                                      std::span<const std::int32_t> landmarks) const;
  /// Adds the jobs that score a set's landmarks: [heads, landmarks].
  void add_scores(const LayerView& view, std::size_t set, MatrixView<float> scores,
                  SelectionJobs& jobs) const;

  /// As KeyRebuilder::rebuild_keys and KeyRebuilder::key_bytes.
  void rebuild_keys(const LayerView& view, const MissingKeys& missing) const;
  std::size_t key_bytes() const;

 private:
  std::vector<std::shared_ptr<const ChunkLandmarks>> landmarks_;  // chunk after chunk
  std::vector<std::shared_ptr<const LowRankKeys>> keys_;          // token after token
};

}  // namespace turnbench
