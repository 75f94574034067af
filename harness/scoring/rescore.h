#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/experiment/locations.h"
#include "harness/store/store.h"

namespace turnbench {

struct RescoreRequest {
  std::string metric, postprocess;  ///< empty: each cell's own
  bool replace = false;             ///< overwrite stored scores that differ
  Locations locations;              ///< to find the segmenter for metrics of Chinese words
};

/// The result for one cell: numbers of scored answers (one per turn), of their dialogues, and of
/// added, unchanged and deleted scores.  Scores of turns without a reference are deleted.
struct CellScores {
  Cell cell;
  std::string metric, postprocess;
  std::size_t turns = 0, dialogues = 0, added = 0, equal = 0, deleted = 0;
  double sum = 0;
  /// One line for each answer that the metric cannot score, and for each stored score that differs.
  std::vector<std::string> refused, different;
};

/// Scores the stored answers of an experiment again, without a model.  Cells of probes have no
/// answers.  Adds the new scores to the store; repeating a request adds nothing.  Turns without a
/// reference get no score; a score that an older version stored for such a turn is deleted.
std::vector<CellScores> rescore(Store& store, const std::string& experiment,
                                const RescoreRequest& request);

}  // namespace turnbench
