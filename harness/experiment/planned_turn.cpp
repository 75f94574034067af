#include "harness/experiment/planned_turn.h"

#include <algorithm>
#include <utility>

namespace turnbench {

std::int64_t kept_tokens(const Method& method, std::int64_t prompt) {
  for (const Method::Part& part : method.parts()) {
    if (!part.parameters.has("budget")) continue;
    const int budget = part.parameters.budget("budget").tokens(static_cast<int>(prompt));
    return std::min<std::int64_t>(prompt, budget);
  }
  return prompt;
}

std::int64_t block_of(const UnitCell& cell, std::size_t turn) {
  const bool evicts = turn == 0 || cell.history != History::kCompressOnce;
  return evicts ? cell.method->policies().compress_block : 0;
}

PlannedTurn plan_turn(const Unit& unit, std::size_t turn, HistoryAnswers answers, bool isolated,
                      std::optional<Along> fidelity) {
  PlannedTurn out{unit.cells, unit.cells.size(), fidelity.has_value(), {}};
  if (fidelity == Along::kFull) {
    for (UnitCell& reference : missing_references(unit.cells))
      out.cells.push_back(std::move(reference));
  }
  for (std::size_t t = 0; t <= turn; ++t) {
    std::vector<TurnCell> cells;
    for (const UnitCell& cell : out.cells) {
      const bool differs =
          answers == HistoryAnswers::kDiffer && t > 0 && cell.answers == Answers::kOwn;
      // Cells of which one decoded for both have the same answer.
      const std::size_t prompt = differs ? 1 + out.sharing.decoder_of[cells.size()] : 0;
      const TurnStart start = start_of(cell, t, unit.dialogue->turns.size(), isolated);
      cells.push_back(turn_cell(cell, start, prompt, cells.size(), out.sharing));
    }
    out.sharing = share_turn(cells, out.fidelity);
  }
  return out;
}

}  // namespace turnbench
