#include "reports/leaderboard/leaderboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "common/error.h"
#include "harness/store/method_settings.h"
#include "reports/leaderboard/board_costs.h"
#include "reports/leaderboard/board_notes.h"
#include "reports/leaderboard/position_differences.h"
#include "reports/leaderboard/shared_terms.h"

namespace turnbench {
namespace {

/// Makes the leaderboard of one model.
class BoardMaker {
 public:
  BoardMaker(const BoardCells& all, const std::vector<const BoardCell*>& cells);
  /// nullopt if no cell has scores.
  std::optional<Leaderboard> make(const std::string& model, const std::string& metric);

 private:
  void add_rows();
  void add_datasets();
  void add_comparability();

  const BoardCells& all_;
  std::vector<const BoardCell*> isolated_;
  BoardGrid grid_;
  SharedTerms terms_;
  bool ranks_isolated_ = false;
  Leaderboard out_;
};

BoardMaker::BoardMaker(const BoardCells& all, const std::vector<const BoardCell*>& cells)
    : all_(all) {
  std::vector<const BoardCell*> others;
  for (const BoardCell* cell : cells)
    (has_length_limit(cell->cell) ? others : isolated_).push_back(cell);
  const auto has_scores = [](const BoardCell* cell) { return !cell->scores.turns.empty(); };
  ranks_isolated_ = std::none_of(others.begin(), others.end(), has_scores);
  grid_ = board_grid(ranks_isolated_ ? isolated_ : others);
  terms_ = shared_terms(grid_);
}

void BoardMaker::add_rows() {
  std::vector<std::vector<Stratum>> strata;
  std::map<std::string, std::set<std::string>> labels;
  std::set<std::string> histories;
  for (const std::size_t m : terms_.methods) {
    labels[grid_.methods[m].label].insert(grid_.methods[m].canonical);
    histories.insert(grid_.methods[m].history);
  }
  out_.has_histories = histories.size() > 1;
  for (std::size_t i = 0; i < terms_.methods.size(); ++i) {
    const BoardMethod& method = grid_.methods[terms_.methods[i]];
    strata.push_back(strata_of_datasets(grid_, terms_, terms_.scores[i]));
    LeaderboardRow& row = out_.rows.emplace_back();
    row.method = labels[method.label].size() > 1 ? method.canonical : method.label;
    row.settings = method.canonical;
    row.history = method.history;
    const MethodSettings settings = MethodSettings::parse(method.canonical);
    if (const std::optional<Budget> budget = settings.budget())
      row.budget = settings.value("budget").value_or(fmt::format("{}", budget->value));
    row.quality = estimate(pointers_to_strata(strata.back()));
  }
  const std::vector<RankRange> ranks = rank_ranges(strata, out_.unit->lower_is_better);
  for (std::size_t i = 0; i < ranks.size(); ++i) out_.rows[i].rank = ranks[i];
}

void BoardMaker::add_datasets() {
  std::map<std::string, std::size_t> places;
  std::map<std::string, std::set<std::uint32_t>> dialogues;
  for (std::size_t i = 0; i < terms_.conditions.size(); ++i) {
    const BoardCondition& condition = grid_.conditions[terms_.conditions[i]];
    const auto [place, is_new] = places.try_emplace(condition.dataset_hash, out_.datasets.size());
    if (is_new) out_.datasets.push_back({condition.dataset, {}});
    Leaderboard::Dataset& dataset = out_.datasets[place->second];
    std::vector<std::string>& positions = dataset.positions;
    if (std::find(positions.begin(), positions.end(), condition.position) == positions.end())
      positions.push_back(condition.position);
    for (const TurnValue& turn : terms_.scores.front()[i].turns)
      dialogues[condition.dataset_hash].insert(turn.dialogue);
    dataset.turns += terms_.scores.front()[i].turns.size();
    dataset.dialogues = dialogues[condition.dataset_hash].size();
  }
}

void BoardMaker::add_comparability() {
  std::vector<const Cell*> cells;
  for (const std::size_t m : terms_.methods) {
    for (const std::size_t c : terms_.conditions) cells.push_back(&grid_.cells[m][c]->cell);
  }
  out_.comparability = comparability(cells, all_.usages);
}

std::optional<Leaderboard> BoardMaker::make(const std::string& model, const std::string& metric) {
  if (terms_.methods.empty()) return std::nullopt;
  out_.model = model;
  out_.metric = metric;
  out_.unit = all_.unit;
  if (terms_.conditions.empty()) {
    out_.notes.emplace_back("No method is ranked: no turn has scores of two methods.");
    return std::move(out_);
  }
  add_rows();
  add_position_differences(out_.rows, grid_, terms_);
  add_datasets();
  add_comparability();
  if (ranks_isolated_) {
    out_.notes.emplace_back(
        "Scores are of isolated runs, whose answers have a fixed length: there are no others.");
  }
  for (std::string& note : board_notes(all_, grid_, terms_)) out_.notes.push_back(std::move(note));
  const bool lower = out_.unit->lower_is_better;
  add_costs(out_.rows, grid_, terms_);
  if (std::string note = add_isolated_costs(out_.rows, isolated_); !note.empty())
    out_.notes.push_back(std::move(note));
  mark_fronts(out_.rows, lower);
  std::stable_sort(out_.rows.begin(), out_.rows.end(), [&](const auto& a, const auto& b) {
    return lower ? a.quality.mean < b.quality.mean : a.quality.mean > b.quality.mean;
  });
  return std::move(out_);
}

}  // namespace

bool Leaderboard::shows(const BoardCost& cost) const {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const LeaderboardRow& row) { return row.costs.contains(cost.name); });
}

std::vector<Leaderboard> leaderboards(const std::vector<const Store*>& stores,
                                      const LeaderboardRequest& request) {
  std::vector<std::string> costs;
  for (const BoardCost& cost : board_costs()) costs.emplace_back(cost.name);
  const BoardCells all = read_board_cells(stores, request, costs);
  std::vector<std::pair<std::string, std::string>> models;  // label, hash
  std::map<std::pair<std::string, std::string>, std::vector<const BoardCell*>> cells;
  std::map<std::string, std::set<std::string>> hashes;
  for (const BoardCell& cell : all.cells) {
    const std::pair model(cell.cell.model, cell.cell.model_hash);
    std::vector<const BoardCell*>& of = cells[model];
    if (of.empty()) models.push_back(model);
    of.push_back(&cell);
    hashes[model.first].insert(model.second);
  }
  const std::string metric = request.choice.metric.empty() ? "" : name_of(request.choice);
  std::vector<Leaderboard> out;
  for (const auto& model : models) {
    constexpr std::size_t kShownHash = 8;
    const std::string name =
        hashes[model.first].size() == 1
            ? model.first
            : fmt::format("{} ({})", model.first, model.second.substr(0, kShownHash));
    if (std::optional<Leaderboard> board = BoardMaker(all, cells[model]).make(name, metric))
      out.push_back(std::move(*board));
  }
  if (out.empty()) {
    throw input_error("{}: found no scores, expected results of at least one method",
                      stores.front()->path());
  }
  return out;
}

std::string rank_text(const RankRange& rank) {
  return rank.best == rank.worst ? std::to_string(rank.best)
                                 : fmt::format("{}–{}", rank.best, rank.worst);
}

}  // namespace turnbench
