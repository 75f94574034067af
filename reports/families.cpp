#include "reports/families.h"

#include <algorithm>
#include <cstddef>

namespace turnbench {

bool all_imported(const std::vector<const Cell*>& cells) {
  return std::all_of(cells.begin(), cells.end(), [](const Cell* c) { return is_imported(*c); });
}

bool has_two_families(const std::vector<TestedDifference>& differences) {
  const auto imported = std::count_if(differences.begin(), differences.end(),
                                      [](const TestedDifference& d) { return d.imported; });
  return imported > 0 && imported < std::ssize(differences);
}

std::vector<std::optional<Difference>> compare_families(
    const std::vector<TestedDifference>& differences, const Comparison& comparison) {
  std::vector<std::optional<Difference>> out(differences.size());
  for (const bool imported : {false, true}) {
    std::vector<std::vector<StratumPair>> family;
    std::vector<std::size_t> members;
    for (std::size_t i = 0; i < differences.size(); ++i) {
      if (differences[i].imported != imported) continue;
      family.push_back(differences[i].pairs);
      members.push_back(i);
    }
    const std::vector<std::optional<Difference>> compared = compare(family, comparison);
    for (std::size_t i = 0; i < members.size(); ++i) out[members[i]] = compared[i];
  }
  return out;
}

}  // namespace turnbench
