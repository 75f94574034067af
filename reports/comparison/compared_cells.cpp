#include "reports/comparison/compared_cells.h"

#include <algorithm>
#include <set>

#include "common/error.h"
#include "common/text.h"
#include "harness/store/method_filter.h"
#include "reports/baseline_cells.h"
#include "reports/common_turns.h"
#include "reports/method_labels.h"

namespace turnbench {

std::string find_compared_method(const std::vector<Cell>& cells, const std::string& spec,
                                 const std::string& model, const char* place) {
  const MethodFilter filter = named_method(spec, cells);
  std::set<std::string> known, found;
  for (const Cell& cell : cells) {
    if (is_probe(cell) || (!model.empty() && cell.model != model)) continue;
    known.insert(cell.method);
    if (filter.matches(cell)) found.insert(cell.method);
  }
  if (found.contains(spec)) return spec;  // its label
  if (found.size() == 1) return *found.begin();
  if (known.empty()) {
    throw input_error(
        "{}: found \"{}\", expected a method with answers; this experiment has only probes", place,
        printable(spec));
  }
  if (found.empty()) {
    throw input_error("{}: found \"{}\", expected {}", place, printable(spec),
                      nearest_methods(spec, known));
  }
  throw input_error("{}: found \"{}\", which {} methods match, expected one of: {}", place,
                    printable(spec), found.size(), printable(join(found, ", ")));
}

std::vector<ComparedCells> compared_cells(const Results& results, const std::string& first,
                                          const std::string& second, const std::string& model) {
  const BaselineCells seconds(results, {.method = second});
  std::vector<ComparedCells> out;
  for (const Cell& cell : results.cells()) {
    if (cell.method != first || (!model.empty() && cell.model != model)) continue;
    const Cell* other = seconds.of(cell);
    if (other == nullptr || other->dataset_hash != cell.dataset_hash) continue;
    ComparedCells& pair = out.emplace_back(ComparedCells{
        &cell, other, results.stratum(cell.key, -1), results.stratum(other->key, -1)});
    keep_common_turns({&pair.first_scores, &pair.second_scores});
    if (pair.first_scores.turns.empty()) out.pop_back();
  }
  return out;
}

std::vector<std::vector<int>> prompt_lengths(const Store& store, const Results& results,
                                             const std::vector<ComparedCells>& cells) {
  using Place = std::pair<std::string, int>;            // dialogue, turn
  std::map<std::string, std::map<Place, int>> lengths;  // by cell
  for (const ComparedCells& pair : cells) {
    lengths[pair.first->key];
    lengths[pair.second->key];
  }
  store.for_each_turn(results.manifest().name, results.score_choice(), [&](const StoredTurn& turn) {
    const auto found = lengths.find(std::string(turn.cell));
    if (found != lengths.end())
      found->second[{std::string(turn.dialogue), turn.turn}] = turn.prompt_tokens;
  });
  std::vector<std::vector<int>> out;
  for (const ComparedCells& pair : cells) {
    std::vector<int>& of_pair = out.emplace_back();
    for (const TurnValue& turn : pair.second_scores.turns) {
      const Place place(pair.second_scores.population->ids[turn.dialogue], turn.turn);
      const int second = lengths[pair.second->key][place];
      of_pair.push_back(second > 0 ? second : lengths[pair.first->key][place]);
    }
  }
  return out;
}

}  // namespace turnbench
