#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "reports/html/views.h"

namespace turnbench {

/// The questions, references and answers of an experiment as JSON for the script of a page.  Equal
/// texts are stored once.  Cells have the indices of `Results::cells`; scores are texts, one for
/// each of `metrics`.  nullopt if there are more than about `most` bytes; "" if the experiment has
/// no answers.
std::optional<std::string> dialogue_data(const Store& store,
                                         const std::vector<MetricResults>& metrics,
                                         std::size_t most);

}  // namespace turnbench
