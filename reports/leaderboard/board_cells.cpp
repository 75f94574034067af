#include "reports/leaderboard/board_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "common/error.h"
#include "common/json.h"
#include "common/text.h"
#include "reports/common_turns.h"
#include "reports/leaderboard/joined_cells.h"
#include "reports/populations.h"

namespace turnbench {
namespace {

/// An experiment of a store.
struct BoardExperiment {
  const Store* store;
  std::string name;
};

/// Reads cells experiment by experiment, and joins those that several stores have.
class BoardReader {
 public:
  BoardReader(const std::vector<const Store*>& stores, const LeaderboardRequest& request,
              const std::vector<std::string>& costs)
      : stores_(stores), request_(request), costs_(costs) {}

  BoardCells read();

 private:
  std::vector<BoardExperiment> chosen_experiments();
  void add(const BoardExperiment& experiment);
  /// Cost -> cell -> values.
  using Costs = std::map<std::string, std::map<std::string, Stratum>>;
  Costs read_costs(const BoardExperiment& experiment, const std::vector<Cell>& cells);
  /// The dialogues of each dataset in all stores: a run with --limit stores only some of them.
  void read_populations(const std::vector<BoardExperiment>& experiments);
  const Store& store_at(const std::string& path) const;
  void require_cells() const;
  void add_notes(const std::vector<std::string>& smoke);

  const std::vector<const Store*>& stores_;
  const LeaderboardRequest& request_;
  const std::vector<std::string>& costs_;
  std::map<std::string, std::shared_ptr<const Population>> populations_;  ///< by dataset
  std::map<std::string, std::size_t> places_;                             ///< by cell
  std::set<std::pair<std::string, std::string>> read_;                    ///< stores and cells
  std::set<std::string> models_, metrics_, imported_, unscored_;
  BoardCells out_;
};

/// The experiments to read; smoke runs only if there are no others.
std::vector<BoardExperiment> BoardReader::chosen_experiments() {
  std::vector<BoardExperiment> out;
  std::set<std::string> known;
  for (const Store* store : stores_) {
    for (const std::string& name : store->experiments()) {
      known.insert(name);
      const std::vector<std::string>& wanted = request_.experiments;
      if (wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end())
        out.push_back({store, name});
    }
  }
  for (const std::string& name : request_.experiments) {
    if (known.contains(name)) continue;
    throw input_error("--experiment: found \"{}\", expected {}", printable(name),
                      nearest_or_all(name, {known.begin(), known.end()}));
  }
  return out;
}

BoardCells BoardReader::read() {
  std::vector<BoardExperiment> chosen = chosen_experiments();
  const auto is_smoke = [](const BoardExperiment& e) { return e.name.ends_with(kSmokeSuffix); };
  out_.is_smoke = !chosen.empty() && std::all_of(chosen.begin(), chosen.end(), is_smoke);
  std::vector<std::string> smoke;
  if (!out_.is_smoke) {
    for (const BoardExperiment& experiment : chosen) {
      if (is_smoke(experiment)) smoke.push_back(experiment.name);
    }
    std::erase_if(chosen, is_smoke);
  }
  read_populations(chosen);
  for (const BoardExperiment& experiment : chosen) add(experiment);
  require_cells();
  add_notes(smoke);
  return std::move(out_);
}

const Store& BoardReader::store_at(const std::string& path) const {
  return **std::find_if(stores_.begin(), stores_.end(),
                        [&](const Store* store) { return store->path() == path; });
}

void BoardReader::read_populations(const std::vector<BoardExperiment>& experiments) {
  std::map<std::string, HashedDialogues> datasets;
  for (const BoardExperiment& experiment : experiments) {
    for (const Cell& cell : experiment.store->cells(experiment.name)) {
      const auto [dataset, is_new] = datasets.try_emplace(cell.dataset_hash);
      for (const Store* store : is_new ? stores_ : std::vector<const Store*>()) {
        for (auto& [id, hashes] : store->text_hashes(cell.dataset_hash)) {
          std::vector<std::string>& known = dataset->second[id];
          if (known.empty()) known = std::move(hashes);
        }
      }
    }
  }
  populations_ = make_populations(datasets);
}

BoardReader::Costs BoardReader::read_costs(const BoardExperiment& experiment,
                                           const std::vector<Cell>& cells) {
  std::map<std::string, std::string> dataset_of;
  for (const Cell& cell : cells) dataset_of[cell.key] = cell.dataset_hash;
  Costs out;
  for (const std::string& name : costs_) {
    const TableValue* unit = find_table_value(name);
    for (const ScoredTurn& turn : experiment.store->values(experiment.name, name)) {
      if (turn.status != Record::Status::kOk) continue;
      Stratum& stratum = out[name][turn.cell];
      if (stratum.population == nullptr) {
        stratum.population = populations_.at(dataset_of.at(turn.cell));
        stratum.is_share = false;
        stratum.scale = unit == nullptr ? 1 : unit->scale;
      }
      const std::vector<std::string>& ids = stratum.population->ids;
      const auto found = std::lower_bound(ids.begin(), ids.end(), turn.dialogue);
      stratum.turns.push_back(
          {static_cast<std::uint32_t>(found - ids.begin()), turn.turn, turn.score});
    }
  }
  for (auto& [name, by_cell] : out) {
    for (auto& [cell, stratum] : by_cell) {
      std::sort(stratum.turns.begin(), stratum.turns.end(),
                [](const TurnValue& a, const TurnValue& b) {
                  return std::pair(a.dialogue, a.turn) < std::pair(b.dialogue, b.turn);
                });
    }
  }
  return out;
}

void BoardReader::add(const BoardExperiment& experiment) {
  const Store& store = *experiment.store;
  const std::string& metric = request_.choice.metric;
  for (const std::string& name : store.metrics(experiment.name)) metrics_.insert(name);
  for (const Cell& cell : store.cells(experiment.name)) models_.insert(cell.model);
  if (!metric.empty() && store.postprocesses(experiment.name, metric).empty()) {
    unscored_.insert(experiment.name);
    return;
  }
  const Results results(store, experiment.name, request_.choice);
  out_.unit = &results.unit_of("score");
  const Costs costs = read_costs(experiment, results.cells());
  std::map<std::string, std::map<std::uint32_t, int>> failed;  // by cell
  for (const Store::Failure& failure : results.failures()) {
    const auto of = std::find_if(results.cells().begin(), results.cells().end(),
                                 [&](const Cell& cell) { return cell.key == failure.cell; });
    const std::vector<std::string>& ids = populations_.at(of->dataset_hash)->ids;
    const auto found = std::lower_bound(ids.begin(), ids.end(), failure.dialogue);
    ++failed[failure.cell][static_cast<std::uint32_t>(found - ids.begin())];
  }
  for (const Cell& cell : results.cells()) {
    if (!request_.model.empty() && cell.model != request_.model) continue;
    if (is_imported(cell)) imported_.insert(cell.method);
    if (is_imported(cell) || is_probe(cell)) continue;
    if (!read_.emplace(store.path(), cell.key).second) continue;  // in another experiment, too
    BoardCell own{cell,
                  store.path(),
                  restricted(results.stratum(cell.key, -1), populations_.at(cell.dataset_hash)),
                  {},
                  failed[cell.key],
                  0,
                  store.environments_of(cell.key)};
    const CellProgress& progress = results.progress(cell);
    own.planned = progress.pending() + own.dialogues().size();
    for (const auto& [name, by_cell] : costs) {
      if (const auto found = by_cell.find(cell.key); found != by_cell.end())
        own.costs[name] = found->second;
    }
    const auto usage = results.usages().find(cell.key);
    if (usage != results.usages().end()) out_.usages.insert(*usage);
    if (const StaleCell* stale = results.stale(cell.key)) out_.stale.push_back(*stale);
    const auto [place, is_new] = places_.try_emplace(cell.key, out_.cells.size());
    if (is_new) {
      out_.cells.push_back(std::move(own));
    } else {
      BoardCell& known = out_.cells[place->second];
      join_cells(known, store_at(known.store), own, store);
    }
  }
}

void BoardReader::require_cells() const {
  if (!request_.model.empty() && !models_.contains(request_.model)) {
    throw input_error("--model: found \"{}\", expected {}", printable(request_.model),
                      nearest_or_all(request_.model, {models_.begin(), models_.end()}));
  }
  const std::string& metric = request_.choice.metric;
  if (!metric.empty() && out_.unit == nullptr) {
    throw input_error("--metric: found \"{}\", of which there are no scores, expected {}",
                      printable(metric),
                      nearest_or_all(metric, {metrics_.begin(), metrics_.end()}));
  }
}

void BoardReader::add_notes(const std::vector<std::string>& smoke) {
  const auto add = [&](const char* text, const auto& names) {
    if (!names.empty()) out_.notes.push_back(fmt::format(fmt::runtime(text), join(names, ", ")));
  };
  add("Smoke runs are left out: {}.", smoke);
  add("Imported predictions are left out, because their prompts are unknown: {}.", imported_);
  add("Experiments without scores by this metric are left out: {}.", unscored_);
}

}  // namespace

std::set<std::uint32_t> BoardCell::dialogues() const {
  std::set<std::uint32_t> out;
  for (const TurnValue& turn : scores.turns) out.insert(turn.dialogue);
  for (const auto& [dialogue, turns] : failed) out.insert(dialogue);
  return out;
}

BoardCells read_board_cells(const std::vector<const Store*>& stores,
                            const LeaderboardRequest& request,
                            const std::vector<std::string>& costs) {
  return BoardReader(stores, request, costs).read();
}

}  // namespace turnbench
