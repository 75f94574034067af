#pragma once

#include <memory>
#include <vector>

#include "inference/backend/backend.h"
#include "inference/engine/engine.h"
#include "inference/policy/policy.h"

namespace turnbench {

/// Prefill attention of one layer on synthetic tensors with the structure of real heads: sinks, a
/// band around the diagonal and around some offsets, columns that all rows attend to, and noise.
/// For timing sparse prefill, including statistics and selection, at any length.
class PlantedLayer : public KvSource {
 public:
  PlantedLayer(Backend& backend, const ModelShape& shape, int tokens, DType kv_dtype = DType::kF32);

  /// Computes the attention of all tokens once, with the patterns of `policy`, or densely if it is
  /// null.  Blocks until the backend has finished.
  void run(PrefillPolicy* policy);

  // The same tensors, for callers that run the attention themselves:
  void keys_and_values(int layer, int set, std::int32_t first, MatrixView<float> rows) override;
  void queries(int layer, std::int32_t first, MatrixView<float> rows) override;

  /// (query, key) pairs that the last run computed, summed over all query heads.
  double pairs() const;
  double dense_pairs() const;

 private:
  /// Generates the keys and values of a set, row by row; writes the queries of its heads to `q`.
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
