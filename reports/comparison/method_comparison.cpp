#include "reports/comparison/method_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "common/error.h"
#include "common/json.h"
#include "common/text.h"
#include "reports/comparison/compared_cells.h"
#include "reports/comparison/comparison_examples.h"
#include "reports/notes.h"

namespace turnbench {
namespace {

/// Divides the compared turns into parts, and compares each.
class PartsMaker {
 public:
  PartsMaker(const Results& results, const std::vector<ComparedCells>& cells,
             const std::vector<std::vector<int>>& lengths)
      : results_(results), cells_(cells), lengths_(lengths) {}

  std::vector<ComparisonPart> make(const std::vector<int>& bounds);

 private:
  using Wanted = std::function<bool(const ComparedCells& cells, int turn, int length)>;
  void add(const std::string& dimension, const std::string& value, const Wanted& wanted);
  std::vector<std::string> values_of(const std::string& name) const;
  void add_dimension(const std::string& name);
  void add_turns();
  void add_lengths(const std::vector<int>& bounds);

  const Results& results_;
  const std::vector<ComparedCells>& cells_;
  const std::vector<std::vector<int>>& lengths_;
  std::vector<ComparisonPart> parts_;
  std::vector<std::vector<std::pair<Stratum, Stratum>>> strata_;  ///< of each part
};

/// Adds the part of the wanted turns.
void PartsMaker::add(const std::string& dimension, const std::string& value, const Wanted& wanted) {
  std::vector<std::pair<Stratum, Stratum>> strata;
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    Stratum first = cells_[i].first_scores, second = cells_[i].second_scores;
    first.turns.clear();
    second.turns.clear();
    for (std::size_t t = 0; t < lengths_[i].size(); ++t) {
      if (!wanted(cells_[i], cells_[i].first_scores.turns[t].turn, lengths_[i][t])) continue;
      first.turns.push_back(cells_[i].first_scores.turns[t]);
      second.turns.push_back(cells_[i].second_scores.turns[t]);
    }
    if (!first.turns.empty()) strata.emplace_back(std::move(first), std::move(second));
  }
  if (strata.empty()) return;
  parts_.push_back({dimension, value, {}, {}, {}});
  strata_.push_back(std::move(strata));
}

std::vector<std::string> PartsMaker::values_of(const std::string& name) const {
  std::vector<std::string> out;
  for (const ComparedCells& cells : cells_) {
    std::string value = results_.dimension(*cells.first, -1, name);
    if (std::find(out.begin(), out.end(), value) == out.end()) out.push_back(std::move(value));
  }
  return out;
}

/// Adds a part for each value of a dimension of cells, if there are several.  Tasks are left out if
/// each dataset has its own.
void PartsMaker::add_dimension(const std::string& name) {
  const std::vector<std::string> values = values_of(name);
  if (values.size() < 2 || (name == "task" && values.size() == values_of("dataset").size())) return;
  for (const std::string& value : values) {
    add(name, value, [&](const ComparedCells& cells, int, int) {
      return results_.dimension(*cells.first, -1, name) == value;
    });
  }
}

void PartsMaker::add_turns() {
  std::set<int> turns;
  for (const ComparedCells& cells : cells_) {
    for (const TurnValue& turn : cells.first_scores.turns) turns.insert(turn.turn);
  }
  if (turns.size() < 2) return;
  for (const int turn : turns) {
    add("turn", std::to_string(turn + 1),
        [&](const ComparedCells&, int number, int) { return number == turn; });
  }
}

/// The quartiles of the known lengths, without equal ones and without the largest length.
std::vector<int> length_quartiles(const std::vector<std::vector<int>>& lengths) {
  std::vector<int> all;
  for (const std::vector<int>& of_pair : lengths) {
    std::copy_if(of_pair.begin(), of_pair.end(), std::back_inserter(all),
                 [](int length) { return length > 0; });
  }
  std::sort(all.begin(), all.end());
  std::vector<int> out;
  for (const std::size_t quarter : {std::size_t{1}, std::size_t{2}, std::size_t{3}}) {
    if (all.empty()) break;
    const int bound = all[(quarter * all.size() + 3) / 4 - 1];  // of the nearest rank
    if (bound < all.back() && (out.empty() || out.back() < bound)) out.push_back(bound);
  }
  return out;
}

void PartsMaker::add_lengths(const std::vector<int>& bounds) {
  for (std::size_t i = 0; i <= bounds.size() && !bounds.empty(); ++i) {
    const int low = i == 0 ? 1 : bounds[i - 1] + 1;
    const bool is_last = i == bounds.size();
    const std::string value = is_last  ? fmt::format("from {}", low)
                              : i == 0 ? fmt::format("up to {}", bounds[i])
                                       : fmt::format("{} to {}", low, bounds[i]);
    add("prompt tokens", value, [&](const ComparedCells&, int, int length) {
      return length >= low && (is_last || length <= bounds[i]);
    });
  }
}

std::vector<ComparisonPart> PartsMaker::make(const std::vector<int>& bounds) {
  add("", "", [](const ComparedCells&, int, int) { return true; });
  for (const char* name : {"model", "dataset", "task", "position", "history", "answers"})
    add_dimension(name);
  add_lengths(bounds.empty() ? length_quartiles(lengths_) : bounds);
  add_turns();
  std::vector<std::vector<StratumPair>> family;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    std::vector<StratumPair>& pairs = family.emplace_back();
    std::vector<const Stratum*> first, second;
    for (const auto& [a, b] : strata_[i]) {
      pairs.push_back({&a, &b});
      first.push_back(&a);
      second.push_back(&b);
    }
    parts_[i].first = estimate(first);
    parts_[i].second = estimate(second);
  }
  const std::vector<std::optional<Difference>> differences = compare(family);
  for (std::size_t i = 0; i < parts_.size(); ++i) parts_[i].difference = differences[i];
  return std::move(parts_);
}

/// Remarks on the experiment, and on cells that only one of the methods has.
std::vector<std::string> comparison_notes(const Results& results, const MethodComparison& of,
                                          const ComparisonRequest& request,
                                          const std::vector<ComparedCells>& pairs) {
  std::vector<std::string> out;
  if (!results.manifest().smoke.empty()) out.push_back(results.manifest().smoke);
  std::vector<Cell> cells;
  std::vector<StaleCell> stale;
  std::map<std::string, int> failed;  // turns, by method
  for (const Cell& cell : results.cells()) {
    const bool wanted = request.model.empty() || cell.model == request.model;
    if (!wanted || (cell.method != of.first && cell.method != of.second)) continue;
    cells.push_back(cell);
    failed[cell.method] += results.stratum(cell.key, -1).failed;
    if (const StaleCell* found = results.stale(cell.key)) stale.push_back(*found);
  }
  const auto left_out = std::count_if(cells.begin(), cells.end(), [&](const Cell& cell) {
    return !results.stratum(cell.key, -1).turns.empty() &&
           std::none_of(pairs.begin(), pairs.end(), [&](const ComparedCells& pair) {
             return pair.first->key == cell.key || pair.second->key == cell.key;
           });
  });
  if (left_out > 0) {
    out.push_back(fmt::format("{} left out: the other method has no score there.",
                              left_out == 1 ? "1 cell is" : fmt::format("{} cells are", left_out)));
  }
  std::erase_if(failed, [](const auto& of_method) { return of_method.second == 0; });
  if (!failed.empty()) {
    std::vector<std::string> counts;
    for (const auto& [method, turns] : failed)
      counts.push_back(fmt::format("{} {}", method, turns));
    out.push_back("Failed turns, which are not compared: " + join(counts, ", ") + ".");
  }
  if (std::string progress = progress_note(results, cells); !progress.empty())
    out.push_back(std::move(progress));
  if (!stale.empty())
    out.push_back(fmt::format("Stale: {}; turnbench run recomputes them.", describe(stale)));
  return out;
}

}  // namespace

MethodComparison compare_methods(const Store& store, const ComparisonRequest& request) {
  const Results results(store, request.experiment, request.choice);
  std::set<std::string> models;
  for (const Cell& cell : results.cells()) models.insert(cell.model);
  if (!request.model.empty() && !models.contains(request.model)) {
    throw input_error("--model: found \"{}\", expected {}", printable(request.model),
                      nearest_or_all(request.model, {models.begin(), models.end()}));
  }
  MethodComparison out;
  out.experiment = request.experiment;
  out.first = find_compared_method(results.cells(), request.first, request.model, "METHOD_A");
  out.second = find_compared_method(results.cells(), request.second, request.model, "METHOD_B");
  if (out.first == out.second) {
    throw input_error("METHOD_B: found \"{}\", which is METHOD_A too, expected another method",
                      printable(request.second));
  }
  out.metric = request.choice.metric.empty() ? "" : name_of(results.score_choice());
  out.unit = results.unit_of("score");
  const std::vector<ComparedCells> cells =
      compared_cells(results, out.first, out.second, request.model);
  if (cells.empty()) {
    throw input_error("{}: found no turn with scores of both {} and {} in {}, expected some",
                      store.path(), printable(out.first), printable(out.second),
                      printable(request.experiment));
  }
  const std::vector<std::vector<int>> lengths = prompt_lengths(store, results, cells);
  out.parts = PartsMaker(results, cells, lengths).make(request.lengths);
  add_examples(out, store, cells, lengths, request.examples);
  out.notes = comparison_notes(results, out, request, cells);
  return out;
}

}  // namespace turnbench
