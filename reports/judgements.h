#pragma once

#include <string>

#include "harness/store/store.h"

namespace turnbench {

/// The number of judgements, by the judges that `choice` names, that could not be parsed and so are
/// in no score: "8 of 24 judgements by m@0123abcd could not be read".  Empty if all were parsed,
/// and for metrics that are not a judge's.
std::string describe_unparsed(const Store& store, const std::string& experiment,
                              const ScoreChoice& choice);

}  // namespace turnbench
