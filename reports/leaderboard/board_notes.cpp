#include "reports/leaderboard/board_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "common/text.h"
#include "reports/common_turns.h"
#include "reports/first_items.h"

namespace turnbench {
namespace {

constexpr std::size_t kNamedInNote = 12;

bool has(const std::vector<std::size_t>& list, std::size_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

/// The label of a method, with its history if other methods have the same label.
std::string label_of(const BoardGrid& grid, std::size_t m) {
  const BoardMethod& method = grid.methods[m];
  const auto same = std::count_if(grid.methods.begin(), grid.methods.end(),
                                  [&](const BoardMethod& o) { return o.label == method.label; });
  return same == 1 ? method.label : method.label + ", " + method.history;
}

/// Why a method is not ranked: the ranked conditions or turns in which it has no result.
std::string why_unranked(const BoardGrid& grid, const SharedTerms& terms, std::size_t m) {
  const std::vector<const BoardCell*>& cells = grid.cells[m];
  if (std::all_of(cells.begin(), cells.end(), [](const BoardCell* c) { return c == nullptr; }))
    return "no results";
  std::vector<const BoardCondition*> lacking;
  std::size_t turns = 0;  // of those that the ranked methods share
  for (std::size_t i = 0; i < terms.conditions.size(); ++i) {
    const std::size_t c = terms.conditions[i];
    if (cells[c] == nullptr) {
      lacking.push_back(&grid.conditions[c]);
      continue;
    }
    Stratum own = cells[c]->scores, ranked = terms.scores.front()[i];
    keep_common_turns({&own, &ranked});
    turns += own.turns.size();
  }
  if (lacking.size() == terms.conditions.size()) return "none under the ranked conditions";
  if (!lacking.empty()) return fmt::format("none in {}", describe(lacking));
  return fmt::format("{} of {} turns", turns, terms.turns);
}

std::string unranked_methods(const BoardGrid& grid, const SharedTerms& terms) {
  std::vector<std::string> out;
  for (std::size_t m = 0; m < grid.methods.size(); ++m) {
    if (has(terms.methods, m)) continue;
    std::string name = fmt::format("{} ({})", label_of(grid, m), why_unranked(grid, terms, m));
    if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(std::move(name));
  }
  return out.empty() ? "" : "Methods that are not ranked: " + first_items(out, kNamedInNote) + ".";
}

std::string unused_conditions(const BoardGrid& grid, const SharedTerms& terms) {
  std::vector<const BoardCondition*> out;
  for (std::size_t c = 0; c < grid.conditions.size(); ++c) {
    const bool any = std::any_of(terms.methods.begin(), terms.methods.end(),
                                 [&](std::size_t m) { return grid.cells[m][c] != nullptr; });
    if (any && !has(terms.conditions, c)) out.push_back(&grid.conditions[c]);
  }
  if (out.empty()) return "";
  return fmt::format("Left out, because not all ranked methods have results there: {}.",
                     describe(out));
}

std::string unscored_conditions(const BoardGrid& grid) {
  std::vector<const BoardCondition*> out;
  for (std::size_t c = 0; c < grid.conditions.size(); ++c) {
    const bool any = std::any_of(grid.cells.begin(), grid.cells.end(),
                                 [&](const auto& of_method) { return of_method[c] != nullptr; });
    if (!any) out.push_back(&grid.conditions[c]);
  }
  if (out.empty()) return "";
  return fmt::format("Left out, because no method has scores there: {}.", describe(out));
}

/// Calls `visit` with the ranked cells.
template <typename Visit>
void for_each_ranked(const BoardGrid& grid, const SharedTerms& terms, const Visit& visit) {
  for (const std::size_t m : terms.methods) {
    for (const std::size_t c : terms.conditions) visit(grid.methods[m], *grid.cells[m][c]);
  }
}

std::string failed_turns(const BoardGrid& grid, const SharedTerms& terms) {
  std::map<std::string, int> failed;
  for_each_ranked(grid, terms, [&](const BoardMethod& method, const BoardCell& cell) {
    for (const auto& [dialogue, turns] : cell.failed) failed[method.label] += turns;
  });
  std::vector<std::string> out;
  for (const auto& [method, turns] : failed) out.push_back(fmt::format("{} {}", method, turns));
  return out.empty() ? "" : "Failed turns: " + first_items(out, kNamedInNote) + ".";
}

/// Datasets of which some ranked cell has not run all dialogues.
std::string partial_datasets(const BoardGrid& grid, const SharedTerms& terms) {
  std::vector<std::string> order;
  std::map<std::string, std::pair<std::size_t, std::size_t>> least;  // run, planned
  for_each_ranked(grid, terms, [&](const BoardMethod&, const BoardCell& cell) {
    const std::pair own(cell.dialogues().size(), cell.planned);
    const auto [found, is_new] = least.try_emplace(cell.cell.dataset, own);
    if (is_new) order.push_back(cell.cell.dataset);
    found->second = std::min(found->second, own);
  });
  std::vector<std::string> out;
  for (const std::string& dataset : order) {
    const auto [run, planned] = least.at(dataset);
    if (run < planned) out.push_back(fmt::format("{} {} of {}", dataset, run, planned));
  }
  return out.empty() ? "" : "Partial: " + join(out, ", ") + " dialogues with a result.";
}

std::string stale_results(const BoardCells& all, const BoardGrid& grid, const SharedTerms& terms) {
  std::set<std::string> ranked;
  for_each_ranked(grid, terms,
                  [&](const BoardMethod&, const BoardCell& cell) { ranked.insert(cell.cell.key); });
  std::vector<StaleCell> stale;
  for (const StaleCell& cell : all.stale) {
    if (ranked.erase(cell.cell.key) > 0) stale.push_back(cell);
  }
  return stale.empty() ? ""
                       : fmt::format("Stale: {}; turnbench run recomputes them.", describe(stale));
}

}  // namespace

std::string describe(const std::vector<const BoardCondition*>& conditions) {
  std::vector<std::string> datasets;
  std::map<std::string, std::vector<std::string>> positions;
  for (const BoardCondition* condition : conditions) {
    std::vector<std::string>& of = positions[condition->dataset];
    if (of.empty()) datasets.push_back(condition->dataset);
    if (std::find(of.begin(), of.end(), condition->position) == of.end())
      of.push_back(condition->position);
  }
  std::vector<std::string> out;
  for (const std::string& dataset : datasets)
    out.push_back(fmt::format("{} ({})", dataset, join(positions[dataset], ", ")));
  return join(out, ", ");
}

std::vector<std::string> board_notes(const BoardCells& all, const BoardGrid& grid,
                                     const SharedTerms& terms) {
  std::vector<std::string> out;
  if (all.is_smoke) out.emplace_back("Smoke runs: stand-ins for models and data.");
  if (terms.left_out_turns > 0) {
    out.push_back(
        fmt::format("{} turns are left out, because not all ranked methods have a score "
                    "for them.",
                    terms.left_out_turns));
  }
  for (std::string& note :
       std::vector<std::string>{unranked_methods(grid, terms), unused_conditions(grid, terms),
                                unscored_conditions(grid), failed_turns(grid, terms),
                                partial_datasets(grid, terms), stale_results(all, grid, terms)}) {
    if (!note.empty()) out.push_back(std::move(note));
  }
  out.insert(out.end(), all.notes.begin(), all.notes.end());
  return out;
}

}  // namespace turnbench
