#pragma once

#include <string>

#include "harness/store/store.h"

namespace turnbench {

/// Says how many judgements of an experiment's answers, by the judges that `choice` names, could
/// not be read and so are in no score: "8 of 24 judgements by m@0123abcd could not be read".  Empty
/// if all were read, and for metrics that are no judge's.
std::string describe_unparsed(const Store& store, const std::string& experiment,
                              const ScoreChoice& choice);

}  // namespace turnbench
