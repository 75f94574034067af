#pragma once

#include <string>
#include <vector>

#include "common/json.h"
#include "datasets/dialogue.h"

namespace turnbench {

// Shared by the readers of InfiniteBench and SCBench.

/// The references in an `answer`: a string, a number (as its digits), or a list of these.
/// @throws Error (input) for other types and an empty list.
std::vector<std::string> parse_references(const JsonView& answer);

/// Appends the four `options` of a record to the question.  The first reference names the right
/// option; the references become this option and its letter.
/// @throws Error (input) unless there are four options and the answer is one of them.
void add_options(Turn& turn, const JsonView& record);

}  // namespace turnbench
