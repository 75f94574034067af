#include "reports/leaderboard/shared_terms.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "reports/common_turns.h"
#include "reports/leaderboard/complete_block.h"

namespace turnbench {
namespace {

auto terms_of(const BoardCondition& c) {
  return std::tie(c.dataset_hash, c.protocol, c.answers, c.metric, c.postprocess);
}

/// The index of a value in a list, to which it is added if it is new.
template <typename Key, typename Value>
std::size_t place_in(std::map<Key, std::size_t>& places, std::vector<Value>& list, Key key,
                     Value value) {
  const auto [found, is_new] = places.try_emplace(std::move(key), list.size());
  if (is_new) list.push_back(std::move(value));
  return found->second;
}

/// The number of turns that any of the strata has.
std::size_t all_turns(const std::vector<const BoardCell*>& cells) {
  std::set<std::pair<std::uint32_t, std::int32_t>> out;
  for (const BoardCell* cell : cells) {
    for (const TurnValue& turn : cell->scores.turns) out.emplace(turn.dialogue, turn.turn);
  }
  return out.size();
}

/// The number of turns that a method has under some conditions.
std::size_t turns_of_method(const BoardGrid& grid, std::size_t method,
                            const std::vector<std::size_t>& conditions) {
  std::size_t out = 0;
  for (const std::size_t c : conditions) out += grid.cells[method][c]->scores.turns.size();
  return out;
}

/// Leaves out the methods with the fewest turns, as many as give the most scores on shared turns.
void leave_out_partial_methods(const BoardGrid& grid, CompleteBlock& block) {
  std::vector<std::size_t> order = block.methods;  // those with the most turns first
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return turns_of_method(grid, a, block.conditions) > turns_of_method(grid, b, block.conditions);
  });
  std::map<std::size_t, Stratum> shared;  // by condition: by the first methods of the order
  std::size_t best = order.size(), most_scores = 0;
  for (std::size_t count = 1; count <= order.size(); ++count) {
    std::size_t turns = 0;
    for (const std::size_t c : block.conditions) {
      Stratum own = grid.cells[order[count - 1]][c]->scores;
      const auto [all, is_first] = shared.try_emplace(c, own);
      if (!is_first) keep_common_turns({&all->second, &own});
      turns += all->second.turns.size();
    }
    if (count >= 2 && count * turns >= most_scores) {
      most_scores = count * turns;
      best = count;
    }
  }
  order.resize(best);
  std::sort(order.begin(), order.end());
  block.methods = std::move(order);
}

}  // namespace

bool BoardCondition::is_other_position_of(const BoardCondition& other) const {
  return terms_of(*this) == terms_of(other) && position != other.position;
}

BoardGrid board_grid(const std::vector<const BoardCell*>& cells) {
  BoardGrid out;
  using Names = std::vector<std::string>;
  std::map<Names, std::size_t> methods, conditions;
  std::map<std::pair<std::size_t, std::size_t>, const BoardCell*> placed;
  for (const BoardCell* cell : cells) {
    const Cell& c = cell->cell;
    const std::size_t method = place_in(methods, out.methods, Names{c.method_canonical, c.history},
                                        BoardMethod{c.method, c.method_canonical, c.history});
    const std::size_t condition =
        place_in(conditions, out.conditions,
                 Names{c.dataset_hash, c.protocol, c.answers, c.metric, c.postprocess, c.position},
                 BoardCondition{c.dataset_hash, c.protocol, c.answers, c.metric, c.postprocess,
                                c.position, c.dataset});
    if (!cell->scores.turns.empty()) placed.try_emplace({method, condition}, cell);
  }
  out.cells.assign(out.methods.size(),
                   std::vector<const BoardCell*>(out.conditions.size(), nullptr));
  for (const auto& [place, cell] : placed) out.cells[place.first][place.second] = cell;
  return out;
}

SharedTerms shared_terms(const BoardGrid& grid) {
  std::vector<std::set<std::size_t>> conditions_of(grid.methods.size());
  for (std::size_t m = 0; m < grid.methods.size(); ++m) {
    for (std::size_t c = 0; c < grid.conditions.size(); ++c) {
      if (grid.cells[m][c] != nullptr) conditions_of[m].insert(c);
    }
  }
  CompleteBlock block = largest_complete_block(conditions_of);
  leave_out_partial_methods(grid, block);
  SharedTerms out;
  out.methods = block.methods;
  out.scores.resize(block.methods.size());
  for (const std::size_t c : block.conditions) {
    std::vector<const BoardCell*> cells;
    for (const std::size_t m : block.methods) cells.push_back(grid.cells[m][c]);
    std::vector<Stratum> scores;
    for (const BoardCell* cell : cells) scores.push_back(cell->scores);
    std::vector<Stratum*> all;
    for (Stratum& stratum : scores) all.push_back(&stratum);
    keep_common_turns(all);
    const std::size_t turns = scores.front().turns.size();
    out.left_out_turns += all_turns(cells) - turns;
    if (turns == 0) continue;
    out.turns += turns;
    out.conditions.push_back(c);
    for (std::size_t i = 0; i < scores.size(); ++i) out.scores[i].push_back(std::move(scores[i]));
  }
  return out;
}

Stratum joined_strata(const std::vector<const Stratum*>& strata,
                      const std::vector<std::size_t>& numbers) {
  constexpr std::int32_t kTurns = 1 << 20;  // more than a dialogue has
  Stratum out = *strata.front();
  out.turns.clear();
  out.failed = 0;
  for (std::size_t i = 0; i < strata.size(); ++i) {
    for (TurnValue turn : strata[i]->turns) {
      turn.turn += static_cast<std::int32_t>(numbers[i]) * kTurns;
      out.turns.push_back(turn);
    }
  }
  std::sort(out.turns.begin(), out.turns.end(), [](const TurnValue& a, const TurnValue& b) {
    return std::tie(a.dialogue, a.turn) < std::tie(b.dialogue, b.turn);
  });
  return out;
}

std::vector<Stratum> strata_of_datasets(const BoardGrid& grid, const SharedTerms& terms,
                                        const std::vector<Stratum>& of_conditions) {
  std::vector<std::string> datasets;
  std::map<std::string, std::vector<const Stratum*>> strata;
  for (std::size_t i = 0; i < terms.conditions.size(); ++i) {
    const std::string& dataset = grid.conditions[terms.conditions[i]].dataset_hash;
    if (!strata.contains(dataset)) datasets.push_back(dataset);
    strata[dataset].push_back(&of_conditions[i]);
  }
  std::vector<Stratum> out;
  for (const std::string& dataset : datasets) {
    std::vector<std::size_t> numbers(strata[dataset].size());
    std::iota(numbers.begin(), numbers.end(), std::size_t{0});
    out.push_back(joined_strata(strata[dataset], numbers));
  }
  return out;
}

std::vector<const Stratum*> pointers_to_strata(const std::vector<Stratum>& strata) {
  std::vector<const Stratum*> out;
  for (const Stratum& stratum : strata) out.push_back(&stratum);
  return out;
}

}  // namespace turnbench
