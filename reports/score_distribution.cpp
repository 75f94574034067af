#include "reports/score_distribution.h"

#include "common/text.h"
#include "reports/pivot.h"

namespace turnbench {
namespace {

const std::vector<std::string> kBins = {"0", "above 0, up to 50", "above 50, below 100", "100"};

std::size_t bin_of(double share) {
  return share <= 0 ? 0 : share <= .5 ? 1 : share < 1 ? 2 : 3;
}

}  // namespace

ScoreDistribution score_distribution(const Results& results) {
  ScoreDistribution out;
  out.bins = kBins;
  const TableValue& unit = results.unit_of("score");
  if (!unit.is_share() || unit.is_signed) return out;
  const Pivot pivot = make_pivot(results, {.rows = results.method_dimensions()});
  for (std::size_t r = 0; r < pivot.rows.size(); ++r) {
    const auto& entry = pivot.entries[r].front();
    if (!entry || !entry->estimate.known) continue;
    ScoreDistribution::Row row{join(pivot.rows[r], ", "), std::vector<double>(kBins.size())};
    double cells = 0;
    for (const std::size_t cell : entry->cells) {
      const std::vector<TurnValue>& turns = results.stratum(results.cells()[cell].key, -1).turns;
      if (turns.empty()) continue;  // none has a reference
      ++cells;
      for (const TurnValue& turn : turns)
        row.percent[bin_of(turn.value)] += 100 / static_cast<double>(turns.size());
    }
    for (double& percent : row.percent) percent /= cells;
    out.rows.push_back(std::move(row));
  }
  return out;
}

}  // namespace turnbench
