#pragma once

#include <map>
#include <string>

#include "datasets/dialogue.h"
#include "judges/rubric.h"

namespace turnbench {

/// The prompt for one judgement.  `answers`: the answers of the dialogue by turn, including the one
/// to judge.  Earlier turns without an answer are marked as such.
std::string judge_prompt(const Rubric& rubric, const Dialogue& dialogue, int turn,
                         const std::map<int, std::string>& answers);

}  // namespace turnbench
