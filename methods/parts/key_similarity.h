#pragma once

#include <vector>

#include "methods/method.h"

namespace turnbench {

/// Products of vectors with all keys of a cached set, computed by the backend.  O(slots) memory for
/// each vector.
class KeyProducts {
 public:
  /// cache: a set that the backend can read.  vectors: their largest number in a call.
  KeyProducts(const LayerView& view, const KvHeadCache& cache, int vectors);
  /// scale * vectors[i] . key of slot j: [vectors, slots], in host memory.  vectors: [vectors,
  /// head_dim], in host memory; scale: positive.
  std::vector<float> of(MatrixView<const float> vectors, float scale);

 private:
  Backend& backend_;
  const KvHeadCache& cache_;
  std::int64_t vectors_;
  Buffer memory_;  // vectors, then products
};

/// For each key of a cached set, the sum of its cosine similarities to the other keys, without
/// those removed: for each key, the similarity to the last other key above `threshold` is removed
/// from the sum of that other key; if there is none, from the sum of the first key (Cai et al.,
/// R-KV, 2025, official code, cal_similarity).  O(slots^2) time, O(slots) memory.
std::vector<double> similarity_sums(const LayerView& view, const KvHeadCache& cache,
                                    float threshold);

}  // namespace turnbench
