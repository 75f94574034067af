#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "reports/results.h"

namespace turnbench {

/// The results that leaderboards rank.
struct LeaderboardRequest {
  std::vector<std::string> experiments = {};  ///< by name, in any of the stores; empty: all
  std::string model = {};                     ///< label; empty: all models
  ScoreChoice choice = {};                    ///< which scores; empty: the cells' own
};

/// One cell with its results in all stores.
struct BoardCell {
  Cell cell;
  std::string store;                        ///< path of the first store that has it
  Stratum scores;                           ///< of all turns
  std::map<std::string, Stratum> costs;     ///< by counter or timing
  std::map<std::uint32_t, int> failed;      ///< number of failed turns, by dialogue
  std::size_t planned = 0;                  ///< dialogues, without those that ran without a score
  std::set<std::string> environments = {};  ///< ids: builds and machines

  /// The dialogues with a score or a failure.
  std::set<std::uint32_t> dialogues() const;
};

/// The cells of several stores, each once.
struct BoardCells {
  std::vector<BoardCell> cells;  ///< in the order of stores, experiments and their tables
  std::vector<StaleCell> stale;
  std::map<std::string, CellUsage> usages;  ///< by cell
  std::vector<std::string> notes;           ///< what is left out
  bool is_smoke = false;                    ///< all results are of smoke runs
  const TableValue* unit = nullptr;         ///< of the scores
};

/// Reads the cells of stores, with the named costs.  Leaves out probes, imported predictions, and
/// smoke runs unless there are no others.
/// @throws Error (input) for experiments, models and metrics that no store has, and if two stores
/// have different results of a cell.
BoardCells read_board_cells(const std::vector<const Store*>& stores,
                            const LeaderboardRequest& request,
                            const std::vector<std::string>& costs);

}  // namespace turnbench
