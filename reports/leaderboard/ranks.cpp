#include "reports/leaderboard/ranks.h"

#include <utility>

namespace turnbench {
namespace {

constexpr double kLevel = .05;

}  // namespace

std::vector<RankRange> rank_ranges(const std::vector<std::vector<Stratum>>& strata_of,
                                   bool lower_is_better, const Comparison& comparison) {
  const std::size_t methods = strata_of.size();
  std::vector<std::vector<StratumPair>> family;
  std::vector<std::pair<std::size_t, std::size_t>> members;
  for (std::size_t a = 0; a < methods; ++a) {
    for (std::size_t b = a + 1; b < methods; ++b) {
      std::vector<StratumPair>& pairs = family.emplace_back();
      for (std::size_t k = 0; k < strata_of[a].size(); ++k)
        pairs.push_back({&strata_of[a][k], &strata_of[b][k]});
      members.emplace_back(a, b);
    }
  }
  std::vector<RankRange> out(methods, RankRange{1, methods});
  const std::vector<std::optional<Difference>> differences = compare(family, comparison);
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto& difference = differences[i];
    if (!difference || difference->against_zero.adjusted > kLevel) continue;
    auto [better, worse] = members[i];
    if ((difference->estimate.mean < 0) != lower_is_better) std::swap(better, worse);
    ++out[worse].best;
    --out[better].worst;
  }
  return out;
}

}  // namespace turnbench
