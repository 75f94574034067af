#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reports/comparability.h"
#include "reports/estimate.h"
#include "reports/leaderboard/board_cells.h"
#include "reports/leaderboard/ranks.h"

namespace turnbench {

/// A cost that leaderboards show.
struct BoardCost {
  const char *name, *heading, *unit;
  int digits;     ///< after the decimal point
  bool isolated;  ///< measured in isolated runs only
  bool on_front;  ///< the Pareto front of quality and this cost is marked
  const char* meaning;
};
const std::vector<BoardCost>& board_costs();

/// One method of a leaderboard, with its settings.
struct LeaderboardRow {
  std::string method;    ///< label
  std::string settings;  ///< canonical text
  std::string history;
  std::string budget;  ///< its parameter; "" if it has none
  RankRange rank;
  Estimate quality;
  std::optional<Difference> begin_minus_end, middle_minus_end;
  std::map<std::string, Estimate> costs;  ///< by name; only measured ones
  std::vector<std::string> fronts;        ///< costs for which it is on the Pareto front
};

/// The methods of one model, compared on the dialogues, positions and turns that all of them have.
struct Leaderboard {
  std::string model;
  std::string metric;  ///< "" for the cells' own
  const TableValue* unit = nullptr;
  std::vector<LeaderboardRow> rows;  ///< best mean first
  struct Dataset {
    std::string name;
    std::vector<std::string> positions;
    std::size_t dialogues = 0, turns = 0;  ///< in the means; turns of all positions together
  };
  std::vector<Dataset> datasets;
  std::vector<std::string> notes;
  std::vector<ComparabilityRemark> comparability;
  bool has_histories = false;  ///< its methods have several
  bool shows(const BoardCost& cost) const;
};

/// The leaderboards of all models, in the order of the stores.
/// @throws Error (input) as `read_board_cells`, and if no cell has results
std::vector<Leaderboard> leaderboards(const std::vector<const Store*>& stores,
                                      const LeaderboardRequest& request);

/// "1", or "1–3" if several ranks are possible.
std::string rank_text(const RankRange& rank);

/// In a report, as Markdown, CSV or JSON.
std::string leaderboard_markdown(const std::vector<Leaderboard>& boards);
std::string leaderboard_csv(const std::vector<Leaderboard>& boards);
std::string leaderboard_json(const std::vector<Leaderboard>& boards);

}  // namespace turnbench
