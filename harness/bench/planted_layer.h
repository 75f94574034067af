#pragma once

#include <memory>
#include <vector>

#include "inference/backend.h"
#include "inference/policy.h"

namespace turnbench {

/// One layer's prefill attention on made-up tensors with the structure that real heads show: sinks,
/// a band around the diagonal and around some offsets, columns that all rows see, and noise.  For
/// measuring sparse prefill, statistics and selection included, at any length.
class PlantedLayer {
 public:
  PlantedLayer(Backend& backend, const ModelShape& shape, int tokens, DType kv_dtype = DType::kF32);

  /// Attends to all tokens once, by the patterns of `policy` or, if null, densely; returns when
  /// that is done.
  void run(PrefillPolicy* policy);

  /// Pairs (query, key) that the last run computed, all query heads.
  double pairs() const;
  double dense_pairs() const;

 private:
  /// Of a set: keys and values, row by row, and the queries of its heads in `q`.
  std::vector<float> plant(int set, std::vector<float>& q) const;
  std::size_t width() const {
    return static_cast<std::size_t>(shape_.heads) * static_cast<std::size_t>(shape_.head_dim);
  }

  Backend& backend_;
  ModelShape shape_;
  int n_;
  std::vector<KvHeadCache> sets_;
  Buffer q_, out_;  // [tokens, heads, head_dim], in the backend's memory
  std::vector<std::int32_t> positions_;
  std::vector<HeadPattern> patterns_;
  DialogueView dialogue_;
};

}  // namespace turnbench
