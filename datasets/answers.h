#pragma once

#include <string>
#include <vector>

#include "common/json.h"
#include "datasets/dialogue.h"

namespace turnbench {

// What the records of InfiniteBench and SCBench have in common.

/// The references of an `answer`: a text, a number in its digits, or a list of these.  Refuses
/// other types and an empty list.
std::vector<std::string> parse_references(const JsonView& answer);

/// Puts the four `options` of a record behind the question; the references become the right one,
/// which the first of them names, and its letter.  Refuses another number of options and an
/// `answer` that is none of them.
void add_options(Turn& turn, const JsonView& record);

}  // namespace turnbench
