#include "reports/leaderboard/board_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "reports/common_turns.h"
#include "reports/leaderboard/board_notes.h"
#include "reports/pareto_front.h"

namespace turnbench {
namespace {

/// Adds means of costs over the shared turns, for the methods that have them in all conditions.
void add_means(std::vector<LeaderboardRow>& rows, const BoardGrid& grid, const SharedTerms& terms,
               bool isolated) {
  for (const BoardCost& cost : board_costs()) {
    if (cost.isolated != isolated) continue;
    std::vector<std::size_t> methods;          // indices in `terms`
    std::vector<std::vector<Stratum>> strata;  // [method][condition]
    for (std::size_t i = 0; i < terms.methods.size(); ++i) {
      std::vector<Stratum> own;
      for (std::size_t c = 0; c < terms.conditions.size(); ++c) {
        const BoardCell& cell = *grid.cells[terms.methods[i]][terms.conditions[c]];
        const auto found = cell.costs.find(cost.name);
        if (found == cell.costs.end()) break;
        Stratum scored = terms.scores[i][c];
        keep_common_turns({&own.emplace_back(found->second), &scored});
      }
      if (own.size() < terms.conditions.size()) continue;
      methods.push_back(i);
      strata.push_back(std::move(own));
    }
    for (std::size_t c = 0; c < terms.conditions.size(); ++c) {
      std::vector<Stratum*> all;
      for (std::vector<Stratum>& own : strata) all.push_back(&own[c]);
      keep_common_turns(all);
    }
    for (std::size_t k = 0; k < methods.size(); ++k) {
      const BoardMethod& method = grid.methods[terms.methods[methods[k]]];
      const auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& r) {
        return r.settings == method.canonical && r.history == method.history;
      });
      const Estimate mean =
          estimate(pointers_to_strata(strata_of_datasets(grid, terms, strata[k])));
      if (row != rows.end() && mean.known) row->costs[cost.name] = mean;
    }
  }
}

}  // namespace

const std::vector<BoardCost>& board_costs() {
  static const std::vector<BoardCost> costs = {
      {"kv_tokens", "kept", "tokens", 0, false, false,
       "tokens cached per KV head when the answer begins"},
      {"kv_bytes", "stored", "MiB", 2, false, true,
       "keys and values when the answer begins, in host and device memory"},
      {"attended_tokens", "read", "tokens", 0, false, true, "tokens that a decode step attends to"},
      {"ttft", "TTFT", "ms", 1, true, true, "time to the first token"},
      {"tpot", "TPOT", "ms", 2, true, true, "mean time of a token from the third on"},
      {"peak_bytes", "peak", "MiB", 1, true, true,
       "peak of weights, keys and values, and workspace"},
      {"step_bytes", "moved", "MiB", 3, false, true,
       "bytes that a decode step transfers between host and device"}};
  return costs;
}

void add_costs(std::vector<LeaderboardRow>& rows, const BoardGrid& grid, const SharedTerms& terms) {
  add_means(rows, grid, terms, /*isolated=*/false);
}

std::string add_isolated_costs(std::vector<LeaderboardRow>& rows,
                               const std::vector<const BoardCell*>& isolated) {
  std::vector<const BoardCell*> cells;
  std::set<std::string> machines;
  for (const BoardCell* cell : isolated) {
    const bool ranked = std::any_of(rows.begin(), rows.end(), [&](const auto& row) {
      return row.settings == cell->cell.method_canonical && row.history == cell->cell.history;
    });
    if (ranked) cells.push_back(cell);
  }
  const BoardGrid grid = board_grid(cells);
  const SharedTerms terms = shared_terms(grid);
  if (terms.methods.empty() || terms.conditions.empty()) return "";
  add_means(rows, grid, terms, /*isolated=*/true);
  std::vector<const BoardCondition*> conditions;
  for (const std::size_t c : terms.conditions) {
    conditions.push_back(&grid.conditions[c]);
    for (const std::size_t m : terms.methods)
      machines.insert(grid.cells[m][c]->environments.begin(), grid.cells[m][c]->environments.end());
  }
  return fmt::format("Times and peaks: isolated runs of {} methods on {}{}.", terms.methods.size(),
                     describe(conditions),
                     machines.size() > 1
                         ? fmt::format(", by {} builds or machines, whose times are "
                                       "not comparable",
                                       machines.size())
                         : "");
}

void mark_fronts(std::vector<LeaderboardRow>& rows, bool lower_is_better) {
  for (const BoardCost& cost : board_costs()) {
    if (!cost.on_front) continue;
    std::vector<QualityAndCost> methods;
    for (const LeaderboardRow& row : rows) {
      const auto found = row.costs.find(cost.name);
      methods.push_back(
          {lower_is_better ? -row.quality.mean : row.quality.mean,
           found == row.costs.end() ? std::nullopt : std::optional(found->second.mean)});
    }
    const std::vector<bool> on_front = pareto_front(methods);
    for (std::size_t i = 0; i < on_front.size(); ++i) {
      if (on_front[i]) rows[i].fronts.emplace_back(cost.name);
    }
  }
}

}  // namespace turnbench
