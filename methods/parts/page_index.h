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

/// Bounds of consecutive pages of the sets of a layer, in a backend's memory.
class PageBoundsBuffer {
 public:
  PageBoundsBuffer() = default;
  PageBoundsBuffer(const LayerView& view, std::int64_t pages, int page_tokens, bool transposed);

  std::int64_t pages() const { return pages_; }  ///< capacity per set
  PageBounds of_set(std::size_t set) const;

 private:
  Buffer bytes_;
  std::byte* data_ = nullptr;
  std::int64_t pages_ = 0, page_bytes_ = 0;
  int page_tokens_ = 0;
  bool transposed_ = false;
};

/// Element-wise minima and maxima of the keys of each page of a layer, from which the scores of
/// its tokens are bounded (Tang et al., Quest, 2024, section 3.2).  Works in any placement.
class PageIndex {
 public:
  struct Options {
    bool prompt_only = false;   ///< generated tokens are not in pages
    bool by_dimension = false;  ///< scores read some dimensions only (`set_queries`)
  };
  PageIndex(int page_tokens, Options options)
      : page_tokens_(page_tokens), options_(options), tokens_(page_tokens) {}

  void build(const LayerView& view);
  void begin_step(const LayerView& view) { tokens_.begin_step(view); }
  /// Adds the tokens of a sequence since the prompt.
  void extend(const LayerView& view);

  /// The number of first tokens of a set that are in pages, and of their pages.
  int tokens(const LayerView& view, std::size_t set) const;
  int pages(const LayerView& view, std::size_t set) const {
    return (tokens(view, set) + page_tokens_ - 1) / page_tokens_;
  }
  /// Prepares scores by dimension.  queries: of each set.  In each dimension, all heads of a set
  /// read the maxima if the sum of their queries is positive there, otherwise the minima (Behnam et
  /// al., RocketKV, 2025, section 3.5).
  void set_queries(const LayerView& view, std::vector<PartialQuery> queries);
  /// Adds the jobs that compute the scores of the first pages of a set: upper bounds of the scores
  /// of their tokens, or scores by dimension.  scores: [heads, pages].
  void add_scores(const LayerView& view, std::size_t set, MatrixView<float> scores,
                  SelectionJobs& jobs) const;
  /// Upper bound of the bytes of an index of `tokens` tokens.
  static std::size_t bytes(const PromptSize& size, int page_tokens);

 private:
  /// Whether the prompt's bounds are those of all pages.
  bool covers_pages() const { return options_.prompt_only && !tokens_.is_stale(); }
  void add_scores(const LayerView& view, std::size_t set, const PageBounds& bounds,
                  MatrixView<float> scores, SelectionJobs& jobs) const;

  /// The queries of a set in a step.
  struct Step {
    MatrixView<float> rows;  ///< each query twice, for minima and maxima: [heads, 2 * head_dim]
    std::vector<int> dims;   ///< of these rows
    std::vector<float> factors;
  };

  int page_tokens_;
  Options options_;
  IndexedTokens tokens_;
  std::shared_ptr<const PageBoundsBuffer> prompt_;
  Unshared<PageBoundsBuffer> own_;
  Unshared<std::vector<Step>> step_;
  std::shared_ptr<KvPool> copies_;  // for keys of offloaded layers
};

}  // namespace turnbench
