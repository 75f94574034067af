#pragma once

#include <string>
#include <vector>

#include "methods/prefill/minference_config.h"

namespace turnbench {

/// How a search scores a candidate.
enum class PatternObjective {
  kRecall,  ///< share of attention mass that it retains, mean over rows: the largest wins
  kOutput   ///< elements of outputs that differ from dense ones by more than 0.005: the fewest win
};

/// A pattern and its score: a share of mass, or a count of elements.
struct FoundPattern {
  MInferenceConfig::Head pattern;
  double score = 0;
};

/// [layers][heads]
using FoundPatterns = std::vector<std::vector<FoundPattern>>;

/// The patterns among which the search chooses, of about equal cost on a prompt of 30 thousand
/// tokens: sinks with a window (100, 800), vertical and slash lines of several sizes, and one
/// eighth of the blocks of 32 (MInference, section 3.2 and Algorithm 1; sizes of the official
/// code).  A block-sparse candidate's vertical and slash sizes mean nothing.
std::vector<MInferenceConfig::Head> pattern_candidates(PatternObjective objective);

/// Chooses for each head the candidate that serves it best on one long prompt, layer by layer while
/// the prompt is prefilled densely: a prefill policy for the calibration of `minference` (Jiang et
/// al., MInference 1.0, 2024, Algorithm 1).  Places of lines and blocks are estimated as in a
/// prefill, on the last 64 rows and on block means.  Then every row from `first_row` on is compared
/// with dense attention.  The earlier candidate wins ties.
///
/// The official code (0.1.6) differs where it is at odds with its own prefill: the mask of its
/// search by recall has a window of one key more, and its search by outputs leaves out the scale of
/// logits when it places lines.  Its search by outputs also runs the prefill's kernels (64-key runs
/// for lines, 100 blocks of 64); here masks are exact and the same for both objectives.
class PatternSearch : public PrefillPolicy {
 public:
  struct Settings {
    PatternObjective objective = PatternObjective::kRecall;
    int first_row = 2500;  ///< of the rows that score
    std::vector<MInferenceConfig::Head> candidates;
  };
  /// Fills `found`, which must outlive the policy.
  PatternSearch(Settings settings, FoundPatterns& found)
      : s_(std::move(settings)), found_(&found) {}

  std::unique_ptr<PrefillPolicy> clone() const override {
    return std::make_unique<PatternSearch>(*this);
  }
  /// Plans dense attention.  Refuses a prompt that ends before `first_row`.
  std::vector<HeadPattern> plan(const LayerView& view) override;

 private:
  FoundPattern best(const LayerView& view, int head) const;

  Settings s_;
  FoundPatterns* found_;
};

/// A pattern as the published files have it: sinks with a window become lines of the same sizes,
/// blocks become lines (1000, 6096).
MInferenceConfig::Head as_vertical_slash(MInferenceConfig::Head pattern);

/// The text of a file that `minference` reads: [{"0": [type, vertical, slash, score], ...}, ...].
std::string pattern_file(const FoundPatterns& found);

}  // namespace turnbench
