#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "reports/statistics/stratum.h"

namespace turnbench {

/// The dialogues of a dataset: id -> hashes of their texts (harness/store/dialogue_hashes.h).
using HashedDialogues = std::map<std::string, std::vector<std::string>>;

/// The populations of datasets, by the dataset's hash.  Dialogues that have a text hash in common,
/// or are connected by others that do, are one unit.  A hash that all dialogues of a dataset have
/// (the same worked examples, say) does not connect them.
std::map<std::string, std::shared_ptr<const Population>> make_populations(
    const std::map<std::string, HashedDialogues>& datasets);

}  // namespace turnbench
