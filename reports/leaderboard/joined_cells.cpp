#include "reports/leaderboard/joined_cells.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/error.h"
#include "common/text.h"
#include "reports/common_turns.h"

namespace turnbench {
namespace {

[[noreturn]] void refuse_different(const BoardCell& known, const BoardCell& more,
                                   const std::string& what, const std::string& dialogue, int turn) {
  const Cell& cell = known.cell;
  throw input_error(
      "{} and {}: found different {} of {}, {}, {}, {}, dialogue {}, turn {}, expected equal "
      "results of a cell in all stores",
      printable(known.store), printable(more.store), what, printable(cell.model),
      printable(cell.dataset), cell.position, printable(cell.method), printable(dialogue),
      turn + 1);
}

/// Compares the records of dialogues that failed in neither store.
void require_equal_records(const BoardCell& known, const Store& known_store, const BoardCell& more,
                           const Store& more_store) {
  const std::vector<std::string>& ids = known.scores.population->ids;
  const auto failed = [&](const std::string& dialogue) {
    const auto at = static_cast<std::uint32_t>(std::lower_bound(ids.begin(), ids.end(), dialogue) -
                                               ids.begin());
    return known.failed.contains(at) || more.failed.contains(at);
  };
  std::map<std::pair<std::string, int>, Store::TurnResult> results;
  for (Store::TurnResult& result : known_store.turn_results(known.cell.key))
    results.emplace(std::pair(result.dialogue, result.turn), std::move(result));
  const auto counters = [](const Store::TurnResult& result) {
    std::map<std::string, double> out;
    for (const Record::NamedValue& counter : result.counters) out[counter.name] = counter.value;
    return out;
  };
  for (const Store::TurnResult& other : more_store.turn_results(known.cell.key)) {
    const auto found = results.find({other.dialogue, other.turn});
    if (found == results.end() || failed(other.dialogue)) continue;
    const Store::TurnResult& own = found->second;
    const char* different = own.prompt_hash != other.prompt_hash ? "prompts"
                            : std::tie(own.status, own.answer, own.answer_tokens) !=
                                    std::tie(other.status, other.answer, other.answer_tokens)
                                ? "answers"
                            : counters(own) != counters(other) ? "counters"
                                                               : nullptr;
    if (different != nullptr) refuse_different(known, more, different, other.dialogue, other.turn);
  }
}

void require_equal_scores(const BoardCell& known, const BoardCell& more) {
  Stratum ours = known.scores, theirs = more.scores;
  keep_common_turns({&ours, &theirs});
  for (std::size_t i = 0; i < ours.turns.size(); ++i) {
    const TurnValue& turn = ours.turns[i];
    if (turn.value == theirs.turns[i].value || known.failed.contains(turn.dialogue) ||
        more.failed.contains(turn.dialogue))
      continue;
    refuse_different(known, more, "scores", ours.population->ids[turn.dialogue], turn.turn);
  }
}

/// Replaces the values of some dialogues by those of another stratum.
void take_dialogues(Stratum& to, const Stratum& from, const std::set<std::uint32_t>& taken) {
  if (to.population == nullptr) {  // has none of these values
    to = from;
    to.turns.clear();
  }
  std::erase_if(to.turns, [&](const TurnValue& turn) { return taken.contains(turn.dialogue); });
  for (const TurnValue& turn : from.turns) {
    if (taken.contains(turn.dialogue)) to.turns.push_back(turn);
  }
  std::sort(to.turns.begin(), to.turns.end(), [](const TurnValue& a, const TurnValue& b) {
    return std::tie(a.dialogue, a.turn) < std::tie(b.dialogue, b.turn);
  });
}

}  // namespace

void join_cells(BoardCell& known, const Store& known_store, const BoardCell& more,
                const Store& more_store) {
  require_equal_records(known, known_store, more, more_store);
  require_equal_scores(known, more);
  const std::set<std::uint32_t> own = known.dialogues();
  std::set<std::uint32_t> taken;
  for (const std::uint32_t dialogue : more.dialogues()) {
    const bool replaces = known.failed.contains(dialogue) && !more.failed.contains(dialogue);
    if (replaces || !own.contains(dialogue)) taken.insert(dialogue);
  }
  take_dialogues(known.scores, more.scores, taken);
  for (const auto& [name, values] : more.costs) take_dialogues(known.costs[name], values, taken);
  for (const std::uint32_t dialogue : taken) {
    known.failed.erase(dialogue);
    const auto failed = more.failed.find(dialogue);
    if (failed != more.failed.end()) known.failed.insert(*failed);
  }
  if (!taken.empty()) known.environments.insert(more.environments.begin(), more.environments.end());
  known.planned = std::max(known.planned, more.planned);
}

}  // namespace turnbench
