#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "methods/method.h"
#include "methods/parts/kept_sets.h"
#include "methods/parts/scores.h"

namespace turnbench {

/// Scores the tokens of a prompt, of which an eviction policy keeps those with the highest scores.
/// A method that registers its scorer (`MethodInfo::scorer`) makes it available to every method
/// with a parameter "scorer".  Forks share a scorer, so it has no state.
class EvictionScorer {
 public:
  virtual ~EvictionScorer() = default;
  /// The statistics that `scores` uses, as in EvictionPolicy.
  virtual int window() const { return 0; }
  virtual std::vector<ColumnRule> columns() const { return {}; }
  virtual std::optional<int> query_moments() const { return std::nullopt; }
  /// The number of rows over which `scores` sums: the scores divided by it are means.
  virtual int summed_rows(const LayerView&) const { return 1; }
  /// The scores of the first `candidates` tokens of a set at the end of a prompt: [candidates].
  /// Infinite scores rank first or last, but not with adakv:normalize=true, which divides by sums
  /// of scores.  NaN is an error.
  virtual std::vector<float> scores(const LayerView& view, const KeptSet& set,
                                    int candidates) const = 0;
};

/// Scores by attention: summed over rows of the prompt -> reduced over the query heads of the set
/// -> pooled along the sequence.
class AttentionScorer : public EvictionScorer {
 public:
  struct Settings {
    int window = 0;            ///< number of last rows that are summed; 0: all rows
    ColumnRule all_rows = {};  ///< how all rows are summed
    GroupRule group = GroupRule::kMean;
    Pooling pooling = Pooling::kNone;
    int kernel = 1;  ///< of the pooling, in tokens
  };
  explicit AttentionScorer(const Settings& settings) : s_(settings) {}

  int window() const override { return s_.window; }
  std::vector<ColumnRule> columns() const override;
  int summed_rows(const LayerView& view) const override;
  std::vector<float> scores(const LayerView& view, const KeptSet& set,
                            int candidates) const override;

 private:
  Settings s_;
};

/// The value of "gqa_agg", or the mean if the method has no such parameter.
GroupRule group_rule(const Parameters& parameters);

/// The scorer whose scores are pooled with "kernel" and "pool", as a condition for
/// `window_parameters`.
constexpr std::string_view kPooledScorer = "scorer=snapkv";

/// Parameter "scorer": the name of a method that registers a scorer.
ParameterInfo scorer_parameter(std::string_view fallback);
/// The scorer that the value of "scorer" names.
std::shared_ptr<const EvictionScorer> chosen_scorer(const Parameters& parameters);

}  // namespace turnbench
