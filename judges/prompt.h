#pragma once

#include <map>
#include <string>

#include "datasets/dialogue.h"
#include "judges/rubric.h"

namespace turnbench {

/// The request for one judging.  `answers`: what stands in the dialogue by turn, the judged answer
/// included; earlier turns without one show that they have none.
std::string judge_prompt(const Rubric& rubric, const Dialogue& dialogue, int turn,
                         const std::map<int, std::string>& answers);

}  // namespace turnbench
