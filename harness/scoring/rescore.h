#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/experiment/locations.h"
#include "harness/store/store.h"

namespace turnbench {

struct RescoreRequest {
  std::string metric, postprocess;  ///< empty: each cell's own
  bool replace = false;             ///< stored scores that come out differently now
  Locations locations;              ///< of the dictionary that metrics of Chinese words need
};

/// The scores of one cell under the request.
struct CellScores {
  Cell cell;
  std::string metric, postprocess;
  std::size_t count = 0, added = 0, equal = 0;
  double sum = 0;
  /// Answers that the metric cannot score, and stored scores that came out differently: one line
  /// each.
  std::vector<std::string> refused, different;
};

/// Scores the stored answers of an experiment anew, without any model: cells of probes have none.
/// The scores are stored beside those that are there; the same request again adds nothing.
std::vector<CellScores> rescore(Store& store, const std::string& experiment,
                                const RescoreRequest& request);

}  // namespace turnbench
