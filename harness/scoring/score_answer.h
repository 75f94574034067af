#pragma once

#include <optional>
#include <string>

#include "datasets/dialogue.h"
#include "metrics/metric.h"
#include "metrics/postprocess.h"

namespace turnbench {

/// How the answers of a cell are scored.
struct Scorer {
  const Metric* metric = nullptr;
  const Postprocess* postprocess = nullptr;
  const Segmenter* segmenter = nullptr;  ///< null if the metric needs none
};

/// The score of an answer to a turn, from 0 to 1; none if the turn has no reference.
/// @throws Error if the metric cannot score it.
std::optional<double> score_answer(const Scorer& scorer, const Turn& turn,
                                   const std::string& answer);

}  // namespace turnbench
