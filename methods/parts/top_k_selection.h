#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "inference/policy/joint_selection.h"
#include "inference/policy/policy.h"
#include "methods/parts/indexed_tokens.h"

namespace turnbench {

/// A list of slots to select.  Some columns of a KV set's scores compete; the best ones are read.
struct Candidates {
  std::size_t set = 0;
  std::int64_t row = 0, rows = 1;     ///< rows of the set's scores: query heads
  std::int64_t columns = 0;           ///< of the set's scores
  std::int64_t first = 0, count = 0;  ///< columns that compete
  int chosen = 0;  ///< columns that are read; unless below `count`, all tokens of the set are read

  bool reads_all() const { return chosen >= count; }
  bool competes() const { return chosen > 0 && chosen < count; }
};
bool reads_all(std::span<const Candidates> lists);

/// Selects the candidates with the highest scores: scores for each query head -> one score for each
/// candidate -> top-k.  Candidates are tokens, pages, chunks or blocks, as the method defines.
class TopKSelection : public SelectionPolicy, public JointSelection {
 public:
  Selection select(const LayerView& view) final;
  void begin_selection(const LayerView& view, SelectionJobs& jobs) final;
  Selection end_selection(const LayerView& view) final;

 protected:
  /// How a list ranks its candidates.
  struct Ranking {
    /// The reduction over the rows of a list; none if lists have one row.
    std::optional<HeadReduction> reduction = {};
    bool over_candidates = false;   ///< reduces the columns that compete only
    bool scores_every_set = false;  ///< also sets whose candidates are all read, or none of them
  };
  virtual Ranking ranking(const LayerView&) const { return {}; }
  /// Prepares a step.  Returns its lists, in the order of a Selection; none if the step reads all
  /// tokens of the layer.
  virtual std::vector<Candidates> begin_step(const LayerView& view) = 0;
  /// Adds the jobs that compute the scores of a set.  scores: [rows, columns], with rows for all
  /// lists of the set.
  virtual void score(const LayerView& view, std::size_t set, MatrixView<float> scores,
                     SelectionJobs& jobs) = 0;
  /// The slots of a list.  best: columns, counted from the list's first one, ascending.
  virtual std::vector<std::int32_t> slots(const LayerView& view, const Candidates& list,
                                          std::span<const std::int32_t> best) const = 0;
  /// Called at the end of a step.  scores: of each set; null for sets without scores.
  virtual void end_step(const LayerView&, std::span<const MatrixView<float>> /*scores*/,
                        Selection&) {}

 private:
  struct Step {
    std::vector<Candidates> lists;
    std::vector<MatrixView<float>> scores;        // of each set
    std::vector<std::vector<std::int32_t>> best;  // of each list; jobs refer to its elements
  };
  Unshared<Step> step_;
};

/// The parts of a KV set that a step reads by the rule of PQCache: the first `sinks` tokens, the
/// `local` newest ones before the current one, the current one, and the `chosen` best of the tokens
/// between.
struct TokenSegments {
  int sinks = 0, local = 0, chosen = 0;  ///< tokens

  /// The candidates of a set of `tokens` tokens are the slots [sinks, end).
  int end(int tokens) const;
};

/// Selects tokens by the rule of TokenSegments, for each KV set or each query head.
class SegmentSelection : public TopKSelection {
 public:
  void after_prefill(const LayerView& view) override { turn_ = segments(view.prompt_tokens); }
  std::vector<SlotRange> pinned(int layer, int set, int tokens) const override;

 protected:
  /// The segments in a turn with a prompt of `prompt_tokens` tokens.
  virtual TokenSegments segments(int prompt_tokens) const = 0;
  /// The lists of a step: of each KV set, or of each query head.  Only candidates have scores if
  /// `scores_candidates_only` is set; otherwise all tokens have.
  std::vector<Candidates> segment_lists(const LayerView& view, bool per_query_head = false,
                                        bool scores_candidates_only = false) const;

  std::vector<std::int32_t> slots(const LayerView& view, const Candidates& list,
                                  std::span<const std::int32_t> best) const override;

 private:
  TokenSegments turn_;  // of the current turn
};

}  // namespace turnbench
