#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "inference/policy/policy.h"
#include "methods/parts/indexed_tokens.h"
#include "methods/parts/partial_query.h"
#include "methods/parts/top_k_selection.h"

namespace turnbench {

/// Transposed keys of a layer, in a backend's or host memory: one row per set and dimension, with
/// one element per token.
class ColumnBuffer {
 public:
  ColumnBuffer() = default;
  ColumnBuffer(const LayerView& view, std::int64_t tokens, std::shared_ptr<Memory> memory);

  /// Capacity in tokens per set, which is also the distance of rows in elements.
  std::int64_t tokens() const { return tokens_; }
  std::int64_t element_bytes() const { return element_; }
  std::int64_t set_bytes() const { return dims_ * tokens_ * element_; }
  std::byte* row(std::size_t set, int dim) const {
    return data_ + (static_cast<std::int64_t>(set) * dims_ + dim) * tokens_ * element_;
  }
  /// In host memory only: writes the keys of slots [first, size of the set) to the columns from
  /// first - first_column on.
  void write_from_host(std::size_t s, const KvHeadCache& set, int first, int first_column);

 private:
  std::int64_t sets_ = 0, dims_ = 0, element_ = 0, tokens_ = 0;
  Buffer bytes_;
  std::byte* data_ = nullptr;
};

/// A transposed copy of a layer's keys, from which scores are estimated that need some dimensions
/// only (Ribar et al., SparQ, 2024).  In host memory if the layer is offloaded; the rows of the
/// dimensions that a step reads are then transferred.
class KeyColumns {
 public:
  /// Copies the keys of a prompt.  on_host: to host memory, since the layer is then offloaded.
  void build(const LayerView& view, bool on_host);
  void begin_step(const LayerView& view) { tokens_.begin_step(view); }
  /// Adds the tokens of a sequence since the prompt.  Returns the first added slot of each set.
  std::vector<int> extend(const LayerView& view);
  const IndexedTokens& tokens() const { return tokens_; }

  /// Prepares the scores of a step.  queries: of each set.
  void set_queries(const LayerView& view, std::vector<PartialQuery> queries);
  /// Adds the jobs that estimate the scores of all tokens of a set: [rows of its query, tokens].
  void add_scores(const LayerView& view, std::size_t set, MatrixView<float> scores,
                  SelectionJobs& jobs) const;

 private:
  /// A set in a step.
  struct Step {
    PartialQuery query = {};
    MatrixView<float> rows = {};       ///< of the query, in the backend's memory
    std::vector<int> in_columns = {};  ///< the rows of the transposed keys that have its dimensions
    std::byte* columns = nullptr;  ///< those of an offloaded layer: [dims, tokens], on the device
  };
  void transfer_columns(const LayerView& view);

  bool on_host_ = false;
  IndexedTokens tokens_;
  std::shared_ptr<const ColumnBuffer> prompt_;
  Unshared<ColumnBuffer> own_;
  Unshared<std::vector<Step>> step_;
};

}  // namespace turnbench
