#pragma once

#include <map>
#include <string>

#include "datasets/dialogue.h"
#include "judges/rubric.h"

namespace turnbench {

/// The prompt for one judging.  `answers`: the answers of the dialogue by turn, including the one
/// to judge.  For earlier turns without an answer, the prompt says that there is none.
std::string judge_prompt(const Rubric& rubric, const Dialogue& dialogue, int turn,
                         const std::map<int, std::string>& answers);

}  // namespace turnbench
