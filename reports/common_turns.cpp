#include "reports/common_turns.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace turnbench {
namespace {

bool is_earlier_turn(const TurnValue& a, const TurnValue& b) {
  return std::pair(a.dialogue, a.turn) < std::pair(b.dialogue, b.turn);
}

}  // namespace

Stratum restricted(const Stratum& all, const std::shared_ptr<const Population>& population) {
  Stratum out = all;
  out.population = population;
  if (all.population == nullptr || all.population->ids == population->ids) return out;
  out.turns.clear();
  const std::vector<std::string>& ids = population->ids;
  for (TurnValue turn : all.turns) {
    const std::string& id = all.population->ids[turn.dialogue];
    const auto found = std::lower_bound(ids.begin(), ids.end(), id);
    if (found == ids.end() || *found != id) continue;
    turn.dialogue = static_cast<std::uint32_t>(found - ids.begin());
    out.turns.push_back(turn);
  }
  return out;
}

void keep_common_turns(const std::vector<Stratum*>& strata) {
  if (strata.empty()) return;
  std::vector<TurnValue> common = strata.front()->turns;
  for (const Stratum* stratum : strata) {
    std::vector<TurnValue> both;
    std::set_intersection(common.begin(), common.end(), stratum->turns.begin(),
                          stratum->turns.end(), std::back_inserter(both), is_earlier_turn);
    common = std::move(both);
  }
  for (Stratum* stratum : strata) {
    std::erase_if(stratum->turns, [&](const TurnValue& turn) {
      return !std::binary_search(common.begin(), common.end(), turn, is_earlier_turn);
    });
  }
}

}  // namespace turnbench
