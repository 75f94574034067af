#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "harness/experiment/prompt_lengths.h"
#include "harness/run/probe_unit.h"
#include "harness/run/unit.h"

namespace turnbench {

/// A prefill of a unit as a plan expects it: rows [begin, end) of a prompt, computed once.
struct PlannedPrefill {
  std::int64_t begin = 0, end = 0;  ///< tokens; begin > 0: continues another prefill
  /// The unit's cells that use it, as indices.  Empty if only the reference of fidelity does.
  std::vector<std::size_t> cells;
  /// Rows of the scoring passes after it, or after each of its blocks.
  std::int64_t scoring_rows = 0;
  /// Rows between evictions, and tokens that are left after an eviction; 0: no evictions within it.
  std::int64_t block = 0, kept = 0;

  std::int64_t tokens() const { return end - begin; }
  /// The rows of all scoring passes, and their (query, key) pairs.  A row attends to all cached
  /// tokens; instructions, and pairs within the passes, are not counted.
  struct Scoring {
    std::int64_t rows = 0;
    double pairs = 0;
  };
  Scoring scoring() const;
  /// Operations of its rows with dense attention to the tokens that are left, and of the scoring
  /// passes, without the output head.
  double flops(const ModelConfig& config) const;

 private:
  /// Consecutive rows, and the tokens that are left before them.
  struct Block {
    std::int64_t before = 0, rows = 0;
  };
  std::vector<Block> blocks() const;
};

/// The prefills of all turns of a unit if all methods give the same answers, by the sharing rule of
/// the runner (harness/run/sharing.h).  Cells of an isolated experiment run one by one.
std::vector<PlannedPrefill> planned_prefills(const Unit& unit, const PromptLengths& lengths,
                                             bool isolated, std::optional<Along> fidelity);

/// The prefills of each turn for probes that run together: full attention, and each method that
/// they name.  Probes of the text alone need none, unless earlier answers are part of the prompt.
std::int64_t probe_prefills(const std::vector<ProbeCell>& cells, bool own_answers);

/// Operations of a dense prefill of `prompt` tokens, without the output head.
double prefill_flops(const ModelConfig& config, std::int64_t prompt);

}  // namespace turnbench
