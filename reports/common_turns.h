#pragma once

#include <memory>
#include <vector>

#include "reports/statistics/stratum.h"

namespace turnbench {

/// The values of the dialogues that `population` has, numbered as in it.
Stratum restricted(const Stratum& all, const std::shared_ptr<const Population>& population);

/// Keeps only the turns that all strata have.
void keep_common_turns(const std::vector<Stratum*>& strata);

}  // namespace turnbench
