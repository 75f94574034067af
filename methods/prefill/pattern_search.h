#pragma once

#include <string>
#include <vector>

#include "methods/prefill/minference_config.h"

namespace turnbench {

/// How a search scores a candidate.
enum class PatternObjective {
  kRecall,  ///< retained share of attention mass, mean over rows; the largest wins
  kOutput   ///< output elements that differ from dense ones by more than 0.005; the fewest win
};

/// A pattern and its score: a share of mass, or a count of elements.
struct FoundPattern {
  MInferenceConfig::Head pattern;
  double score = 0;
};

/// [layers][heads]
using FoundPatterns = std::vector<std::vector<FoundPattern>>;

/// The candidates of the search, of about equal cost on a prompt of 30 thousand tokens: sinks with
/// a window (100, 800), vertical and slash lines of several sizes, and one eighth of the blocks of
/// 32 (MInference, section 3.2 and Algorithm 1; sizes of the official implementation).  The
/// vertical and slash sizes of a block-sparse candidate are unused.
std::vector<MInferenceConfig::Head> pattern_candidates(PatternObjective objective);

/// Chooses the best candidate for each head on one long prompt, layer by layer during a dense
/// prefill: a prefill policy for the calibration of `minference` (Jiang et al., MInference 1.0,
/// 2024, Algorithm 1).  Lines and blocks are estimated as in a prefill, from the last 64 rows and
/// from block means.  Every row from `first_row` on is then compared with dense attention.  Ties go
/// to the earlier candidate.
///
/// The official implementation (0.1.6) differs where it is inconsistent with its own prefill: the
/// mask of its search by recall has a window that is one key larger, and its search by outputs
/// omits the scale of the logits when it estimates lines.  Its search by outputs also uses the
/// prefill kernels (64-key runs for lines, 100 blocks of 64); here masks are exact and the same for
/// both objectives.
class PatternSearch : public Cloned<PatternSearch, PrefillPolicy> {
 public:
  struct Settings {
    PatternObjective objective = PatternObjective::kRecall;
    int first_row = 2500;  ///< first row that is scored
    std::vector<MInferenceConfig::Head> candidates;
  };
  /// Fills `found`, which must outlive the policy.
  PatternSearch(Settings settings, FoundPatterns& found)
      : s_(std::move(settings)), found_(&found) {}

  /// Plans dense attention.  Refuses a prompt that ends before `first_row`.
  std::vector<HeadPattern> plan(const LayerView& view) override;

 private:
  FoundPattern best(const LayerView& view, int head) const;

  Settings s_;
  FoundPatterns* found_;
};

/// A pattern in the form of the published files: sinks with a window become lines of the same
/// sizes, blocks become lines (1000, 6096).
MInferenceConfig::Head as_vertical_slash(MInferenceConfig::Head pattern);

/// The text of a file that `minference` reads: [{"0": [type, vertical, slash, score], ...}, ...].
std::string pattern_file(const FoundPatterns& found);

}  // namespace turnbench
