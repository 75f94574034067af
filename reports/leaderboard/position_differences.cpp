#include "reports/leaderboard/position_differences.h"

#include <map>
#include <utility>

namespace turnbench {

void add_position_differences(std::vector<LeaderboardRow>& rows, const BoardGrid& grid,
                              const SharedTerms& terms) {
  struct Sides {
    std::vector<const Stratum*> first, end;
    std::vector<std::size_t> numbers;
  };
  std::vector<std::pair<Stratum, Stratum>> joined;  // of all members, one after the other
  std::vector<std::size_t> sizes;                   // pairs of each member
  std::vector<std::optional<Difference>*> members;
  for (const bool begin : {true, false}) {
    for (std::size_t m = 0; m < rows.size(); ++m) {
      std::map<std::string, Sides> of_dataset;
      for (std::size_t a = 0; a < terms.conditions.size(); ++a) {
        const BoardCondition& first = grid.conditions[terms.conditions[a]];
        if (first.position != (begin ? "begin" : "middle")) continue;
        for (std::size_t b = 0; b < terms.conditions.size(); ++b) {
          const BoardCondition& other = grid.conditions[terms.conditions[b]];
          if (other.position != "end" || !first.is_other_position_of(other)) continue;
          Sides& sides = of_dataset[first.dataset_hash];
          sides.numbers.push_back(sides.first.size());
          sides.first.push_back(&terms.scores[m][a]);
          sides.end.push_back(&terms.scores[m][b]);
        }
      }
      if (of_dataset.empty()) continue;
      for (const auto& [dataset, sides] : of_dataset) {
        joined.emplace_back(joined_strata(sides.first, sides.numbers),
                            joined_strata(sides.end, sides.numbers));
      }
      sizes.push_back(of_dataset.size());
      LeaderboardRow& row = rows[m];
      members.push_back(begin ? &row.begin_minus_end : &row.middle_minus_end);
    }
  }
  std::vector<std::vector<StratumPair>> family;
  auto next = joined.begin();
  for (const std::size_t size : sizes) {
    std::vector<StratumPair>& pairs = family.emplace_back();
    for (std::size_t k = 0; k < size; ++k, ++next) pairs.push_back({&next->first, &next->second});
  }
  const std::vector<std::optional<Difference>> differences = compare(family);
  for (std::size_t i = 0; i < members.size(); ++i) *members[i] = differences[i];
}

}  // namespace turnbench
