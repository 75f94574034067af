#pragma once

#include <vector>

#include "common/json.h"
#include "harness/run/unit.h"

namespace turnbench {

/// The results of a unit for another process.
Json result_to_json(const UnitResult& result, const std::vector<ScoreValue>& scores);
UnitResult result_from_json(const Json& json);
std::vector<ScoreValue> scores_from_json(const Json& json);

}  // namespace turnbench
