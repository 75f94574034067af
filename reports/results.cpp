#include "reports/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "common/error.h"
#include "common/json.h"
#include "common/mean.h"
#include "common/text.h"
#include "harness/run/fidelity.h"
#include "harness/store/cell.h"
#include "harness/store/method_settings.h"
#include "reports/cost_plots.h"
#include "reports/first_items.h"
#include "reports/judgements.h"
#include "reports/pivot.h"
#include "reports/populations.h"

namespace turnbench {
namespace {

const Stratum kNothing;

/// Determines the postprocess: the cells' own, or the only existing one.
ScoreChoice choose(const Store& store, const std::string& experiment, ScoreChoice choice) {
  // Fidelity compares tokens, so no postprocess applies.
  if (is_fidelity_metric(choice.metric) && choice.postprocess.empty()) choice.postprocess = "none";
  const std::map<std::string, bool> known = store.postprocesses(experiment, choice.metric);
  if (known.empty()) {
    const std::string unparsed = describe_unparsed(store, experiment, choice);
    throw input_error("{}: found no scores of {} by \"{}\"{}, expected a metric of: {}",
                      store.path(), experiment, printable(choice.metric),
                      unparsed.empty() ? "" : " (" + printable(unparsed) + ")",
                      join(store.metrics(experiment), ", "));
  }
  std::vector<std::string> names;
  bool own = false;
  for (const auto& [name, is_own] : known) {
    names.push_back(name);
    own |= is_own;
  }
  if (choice.postprocess.empty() && own) return choice;
  if (choice.postprocess.empty() && names.size() == 1) choice.postprocess = names.front();
  if (!known.contains(choice.postprocess)) {
    throw input_error("--postprocess: found \"{}\" for {}, expected one of: {}",
                      printable(choice.postprocess), printable(choice.metric), join(names, ", "));
  }
  return choice;
}

Results::Published as_published(const PublishedNumber& row) {
  Results::Published out{row.value, {}};
  if (!row.note.empty()) out.notes.push_back(row.note);
  return out;
}

/// A published number in a message: its line, and the cells to which it belongs.
std::string place_of(const PublishedNumber& row) {
  std::vector<std::string> named;
  for (const auto& [name, values] : row.dimensions) named.push_back(join(values, " | "));
  return fmt::format("line {} ({})", row.line, join(named, ", "));
}

/// The index of a dialogue in its dataset.  `near`: index of the previous row's dialogue; rows are
/// mostly in order.
std::uint32_t number_of(const Population& population, std::string_view id, std::uint32_t near) {
  const std::vector<std::string>& ids = population.ids;
  for (std::size_t i = near; i < ids.size() && i <= near + 1; ++i) {
    if (ids[i] == id) return static_cast<std::uint32_t>(i);
  }
  const auto found = std::lower_bound(ids.begin(), ids.end(), id);
  if (found == ids.end() || *found != id) {
    throw input_error("dialogue {}: found results of it, expected it among the {} of its dataset",
                      printable(id), ids.size());
  }
  return static_cast<std::uint32_t>(found - ids.begin());
}

/// The mean of a measurement over the records of each cell.
std::map<std::string, double> mean_values(const Store& store, const std::string& experiment,
                                          const std::string& name) {
  std::map<std::string, Mean> means;
  for (const ScoredTurn& turn : store.values(experiment, name)) means[turn.cell].add(turn.score);
  std::map<std::string, double> out;
  for (const auto& [cell, mean] : means) out[cell] = mean.value();
  return out;
}

/// The length or the depth that a dataset's entry in the manifest has; "-" if it has none.
std::string placed_in(const std::vector<DatasetEntry>& datasets, const std::string& label,
                      const std::string& dimension) {
  for (const DatasetEntry& entry : datasets) {
    if (entry.label != label) continue;
    if (dimension == kLengthDimension) return entry.length > 0 ? std::to_string(entry.length) : "-";
    return entry.depth ? fmt::format("{}", *entry.depth) : "-";
  }
  return "-";  // imported predictions
}

}  // namespace

std::string name_of(const ScoreChoice& choice) {
  if (choice.postprocess.empty() || is_fidelity_metric(choice.metric)) return choice.metric;
  return fmt::format("{} ({})", choice.metric, choice.postprocess);
}

Results::Results(const Store& store, const std::string& experiment, const ScoreChoice& choice)
    : manifest_(parse_manifest(store.manifest(experiment),
                               store.path() + ": manifest of " + experiment, ManifestUse::kReport)),
      cells_(store.cells(experiment)),
      usages_(store.usages(experiment)),
      stale_(stale_cells(store, experiment)) {
  for (const DatasetEntry& entry : manifest_.datasets) {
    if (entry.task.empty()) continue;
    for (Cell& cell : cells_) {
      if (cell.dataset == entry.label) cell.task = entry.task;
    }
  }
  if (!choice.metric.empty()) {
    choice_ = choose(store, experiment, choice);
    for (Cell& cell : cells_) {
      cell.metric = choice_.metric;
      if (!choice_.postprocess.empty()) cell.postprocess = choice_.postprocess;
    }
  }
  tables_ = manifest_.tables;
  if (tables_.empty()) tables_.push_back(table_of_all_cells());
  read_populations(store);
  read_values(store, experiment);
  std::vector<std::string> counters;
  for (const ReportedCounter& counter : reported_counters()) counters.emplace_back(counter.name);
  counters.insert(counters.end(), cost_counters().begin(), cost_counters().end());
  counters_ = store.mean_counters(experiment, counters);
  for (const std::string& name : isolated_costs()) {
    auto& means = counters_[name];
    if (manifest_.isolated) means = mean_values(store, experiment, name);
  }
  published_ = parse_published(store.published(experiment),
                               store.path() + ": published numbers of " + experiment);
  check_published();
}

std::vector<std::string> Results::method_dimensions() const {
  std::vector<std::string> out = {"method"};
  for (const char* name : {"model", "history", "answers"}) {
    if (values_of(name).size() > 1) out.emplace_back(name);
  }
  return out;
}

TableSpec Results::table_of_all_cells() const {
  TableSpec out;
  for (const char* name : {"model", "method", "history", "answers"}) {
    if (name == std::string_view("method") || values_of(name).size() > 1)
      out.rows.emplace_back(name);
  }
  out.columns = {"dataset", "position"};
  return out;
}

void Results::read_populations(const Store& store) {
  std::map<std::string, HashedDialogues> datasets;
  for (const Cell& cell : cells_) {
    const auto [dataset, is_new] = datasets.try_emplace(cell.dataset_hash);
    if (!is_new) continue;
    dataset->second = store.text_hashes(cell.dataset_hash);
    lacks_text_hashes_ |= std::any_of(dataset->second.begin(), dataset->second.end(),
                                      [](const auto& d) { return d.second.empty(); });
    std::vector<int>& turns = dialogue_turns_[cell.dataset_hash];
    for (const auto& [id, count] : store.turn_counts(cell.dataset_hash)) turns.push_back(count);
  }
  populations_ = make_populations(datasets);
  std::map<std::string, std::size_t> planned;  // by dataset and card, of which there are few
  for (const Cell& cell : cells_) {
    const auto [found, is_new] = planned.try_emplace(cell.dataset_hash + " " + cell.protocol);
    if (is_new) {
      found->second = planned_dialogues(cell, populations_.at(cell.dataset_hash)->ids.size());
    }
    progress_[cell.key].total = found->second;
  }
}

/// Adds turns to the strata of one value, cell by cell.
class Results::StratumReader {
 public:
  StratumReader(Results& results, const std::string& value, bool by_turn)
      : results_(results), value_(value), by_turn_(by_turn) {
    const bool is_agreement = results.unit_of(value).name == "agreement";
    for (const Cell& cell : results.cells_) {
      of_cell_[cell.key] = results.populations_.at(cell.dataset_hash);
      if (is_agreement && MethodSettings::parse(cell.method_canonical).is_exact())
        exact_.insert(cell.key);
    }
  }

  /// Returns the index of the turn's dialogue.
  std::uint32_t add(std::string_view cell, std::string_view dialogue, int turn,
                    Record::Status status, double value, bool lacks_reference = false) {
    if (all_ == nullptr || cell != cell_) {
      cell_ = cell;
      all_ = &stratum(-1);
    }
    dialogue_ = number_of(*all_->population, dialogue, dialogue_);
    const auto add_to = [&](Stratum& stratum) {
      if (status != Record::Status::kOk) {
        ++(is_failure(status) ? stratum.failed
           : lacks_reference  ? stratum.without_reference
                              : stratum.without_value);
      } else {
        stratum.turns.push_back({dialogue_, turn, value});
      }
    };
    add_to(*all_);
    if (by_turn_) add_to(stratum(turn));
    return dialogue_;
  }

 private:
  Stratum& stratum(int turn) {
    const TableValue& unit = results_.unit_of(value_);
    Stratum& out = results_.strata_[{value_, cell_, turn}];
    out.population = of_cell_.at(cell_);
    out.is_share = unit.is_share();
    out.is_signed = unit.is_signed;
    out.is_exact = exact_.contains(cell_);
    out.scale = unit.scale;
    return out;
  }

  Results& results_;
  const std::string& value_;
  const bool by_turn_;
  std::map<std::string, std::shared_ptr<const Population>> of_cell_;
  std::set<std::string> exact_;  // cells of full attention, for comparisons with itself
  std::string cell_;             // of the last turn
  Stratum* all_ = nullptr;       // stratum of this cell over all turns
  std::uint32_t dialogue_ = 0;
};

/// Counts properties of turns other than scores: complete dialogues, truncation, failures, and
/// environments.
class Results::TurnCounter {
 public:
  explicit TurnCounter(Results& results) : results_(results) {
    for (const Cell& cell : results.cells_)
      turns_of_cell_[cell.key] = &results.dialogue_turns_.at(cell.dataset_hash);
  }

  void add(const StoredTurn& turn, std::uint32_t dialogue) {
    results_.turns_ = std::max(results_.turns_, turn.turn + 1);
    const bool other_cell = progress_ == nullptr || turn.cell != cell_;
    if (other_cell) {
      cell_ = turn.cell;
      progress_ = &results_.progress_.at(cell_);
      planned_turns_ = turns_of_cell_.at(cell_);
      truncation_ = nullptr;
    }
    if (other_cell || dialogue != dialogue_) {
      stored_ = lost_ = 0;
      has_failed_ = false;
    }
    dialogue_ = dialogue;
    has_failed_ |= is_failure(turn.status);
    if (++stored_ == (*planned_turns_)[dialogue]) {
      ++progress_->run;
      progress_->failed += has_failed_;
    }
    if (turn.environment != environment_) environments_.emplace(environment_ = turn.environment);
    if (is_failure(turn.status)) {
      results_.failures_.push_back(
          {cell_, std::string(turn.dialogue), std::string(turn.error), turn.turn});
    }
    if (turn.prompt_tokens <= 0) return;  // the others have no prompt
    lost_ += turn.truncated_tokens;
    if (truncation_ == nullptr) truncation_ = &results_.truncations_[cell_];
    truncation_->add(turn.prompt_tokens, lost_);
  }

  const std::set<std::string>& environments() const { return environments_; }

 private:
  Results& results_;
  std::map<std::string, const std::vector<int>*> turns_of_cell_;
  std::string cell_;  // of the last turn
  CellProgress* progress_ = nullptr;
  const std::vector<int>* planned_turns_ = nullptr;
  Truncation* truncation_ = nullptr;  // of this cell, once a turn has a prompt
  std::uint32_t dialogue_ = 0;
  int stored_ = 0, lost_ = 0;  // turns and tokens of the dialogue so far
  bool has_failed_ = false;    // one of these turns
  std::string environment_;    // of the last turn
  std::set<std::string> environments_;
};

void Results::read_values(const Store& store, const std::string& experiment) {
  std::vector<std::string> values = {"score"};  // first, because it counts failures
  bool by_turn = false;
  for (const TableSpec& table : tables_) {
    for (const std::string& value : table.values) {
      if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
    }
    for (const auto* named : {&table.rows, &table.columns})
      by_turn |= std::find(named->begin(), named->end(), "turn") != named->end();
  }
  std::set<std::string> probes;  // cells
  for (const Cell& cell : cells_) {
    if (is_probe(cell)) probes.insert(cell.key);
  }
  TurnCounter counter(*this);
  for (const std::string& value : values) {
    StratumReader reader(*this, value, by_turn);
    if (shows_scores(value)) {
      const ScoreChoice choice = choice_of(store, value);
      std::string unparsed = describe_unparsed(store, experiment, choice);
      if (!unparsed.empty()) unparsed_.insert(std::move(unparsed));
      store.for_each_turn(experiment, choice, [&](const StoredTurn& t) {
        const std::uint32_t dialogue =
            reader.add(t.cell, t.dialogue, t.turn, t.status, t.score, t.lacks_reference);
        if (value == "score") counter.add(t, dialogue);
      });
    } else {
      const std::vector<ScoredTurn> found = store.values(experiment, value);
      for (const ScoredTurn& t : found) reader.add(t.cell, t.dialogue, t.turn, t.status, t.score);
      if (!found.empty()) {  // failed turns have none of these quantities
        for (const Store::Failure& f : failures_) {
          if (!probes.contains(f.cell))
            reader.add(f.cell, f.dialogue, f.turn, Record::Status::kError, 0);
        }
      }
    }
  }
  read_references(store);
  environments_ = store.environments(counter.environments());
  for (auto& [key, stratum] : strata_) {
    const auto before = [](const TurnValue& a, const TurnValue& b) {
      return std::tie(a.dialogue, a.turn) < std::tie(b.dialogue, b.turn);
    };
    if (!std::is_sorted(stratum.turns.begin(), stratum.turns.end(), before))
      std::sort(stratum.turns.begin(), stratum.turns.end(), before);
  }
}

void Results::read_references(const Store& store) {
  std::map<std::string_view, std::string_view> dataset_of;  // by cell
  for (const Cell& cell : cells_) dataset_of[cell.key] = cell.dataset_hash;
  for (const auto& [key, stratum] : strata_) {
    if (stratum.without_reference == 0) continue;
    const auto [known, is_new] =
        referenced_.try_emplace(std::string(dataset_of.at(std::get<1>(key))));
    if (is_new) known->second = store.turns_with_references(known->first);
  }
}

void Results::check_published() {
  std::vector<int> uses(published_.size(), 0);
  std::vector<std::string> unused, several;
  for (const Cell& cell : cells_) {
    std::vector<const PublishedNumber*> own;
    for (std::size_t i = 0; i < published_.size(); ++i) {
      const PublishedNumber& row = published_[i];
      const bool agrees = row.matches([&](const std::string& name) {
        return name == "metric" ? row.dimensions.at(name).front() : dimension(cell, -1, name);
      });
      if (!agrees) continue;
      ++uses[i];
      if (row.averaged_over.empty() && belongs(row, cell, "")) own.push_back(&row);
    }
    if (own.size() < 2) continue;
    std::string both = fmt::format("{} and {}", place_of(*own[0]), place_of(*own[1]));
    if (std::find(several.begin(), several.end(), both) == several.end())
      several.push_back(std::move(both));
  }
  for (std::size_t i = 0; i < published_.size(); ++i) {
    if (uses[i] == 0) unused.push_back(place_of(published_[i]));
  }
  constexpr std::size_t kShown = 5;
  if (!unused.empty()) {
    published_problems_.push_back(fmt::format("{} of {} published numbers belong to no cell: {}.",
                                              unused.size(), published_.size(),
                                              first_items(unused, kShown)));
  }
  if (!several.empty()) {
    published_problems_.push_back(
        "Two published numbers for one cell, of which the first counts: " +
        first_items(several, kShown) + ".");
  }
}

int Results::turn_count(const Cell& cell, int turn) const {
  int out = 0;
  for (const int turns : dialogue_turns_.at(cell.dataset_hash))
    out += turn < 0 ? turns : turn < turns ? 1 : 0;
  return out;
}

bool Results::has_reference(const Cell& cell, int turn) const {
  const auto found = referenced_.find(cell.dataset_hash);
  if (found == referenced_.end()) return true;
  const std::vector<bool>& turns = found->second;
  if (turn < 0) return std::find(turns.begin(), turns.end(), true) != turns.end();
  return static_cast<std::size_t>(turn) < turns.size() && turns[static_cast<std::size_t>(turn)];
}

int Results::turns_of(const Cell& cell) const {
  const std::vector<int>& turns = dialogue_turns_.at(cell.dataset_hash);
  return turns.empty() ? 0 : *std::max_element(turns.begin(), turns.end());
}

std::size_t Results::pending(bool imported) const {
  // All cells run a dataset's dialogues in the same order, so the cell with the most missing
  // dialogues lacks all that are missing.
  std::map<std::string, std::size_t> most;  // by dataset
  for (const Cell& cell : cells_) {
    if (is_imported(cell) != imported) continue;
    std::size_t& of_dataset = most[cell.dataset_hash];
    of_dataset = std::max(of_dataset, progress(cell).pending());
  }
  std::size_t out = 0;
  for (const auto& [dataset, pending] : most) out += pending;
  return out;
}

const TableValue& Results::unit_of(const std::string& value) const {
  const bool chosen = value == "score" && !choice_.metric.empty();
  const TableValue* known = find_table_value(chosen ? choice_.metric : value);
  return known == nullptr ? *find_table_value("score") : *known;
}

ScoreChoice Results::choice_of(const Store& store, const std::string& value) const {
  if (value == "score") return choice_;
  const ScoreChoice metric{value, ""};
  const bool any = !store.postprocesses(manifest_.name, value).empty();
  return any ? choose(store, manifest_.name, metric) : metric;  // no answer was scored by it yet
}

const Stratum& Results::stratum(const std::string& cell, int turn, const std::string& value) const {
  const auto found = strata_.find({value, cell, turn < 0 ? -1 : turn});
  return found == strata_.end() ? kNothing : found->second;
}

Truncation Results::truncation(const std::string& cell) const {
  const auto found = truncations_.find(cell);
  return found == truncations_.end() ? Truncation() : found->second;
}

Truncation Results::truncation(const std::vector<Cell>& cells) const {
  return total(cells, truncations_);
}

const StaleCell* Results::stale(const std::string& cell) const {
  const auto found = std::find_if(stale_.begin(), stale_.end(),
                                  [&](const StaleCell& s) { return s.cell.key == cell; });
  return found == stale_.end() ? nullptr : &*found;
}

std::optional<double> Results::counter(const std::string& cell, const std::string& name) const {
  const auto& values = counters_.at(name);
  const auto found = values.find(cell);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Results::Published> Results::published(const Cell& cell,
                                                     const std::string& metric) const {
  for (const PublishedNumber& row : published_) {
    if (row.averaged_over.empty() && belongs(row, cell, metric)) return as_published(row);
  }
  return std::nullopt;
}

/// Whether a published number is for a cell's scores by `metric`, or by the cell's own metric.
bool Results::belongs(const PublishedNumber& row, const Cell& cell,
                      const std::string& metric) const {
  const bool own = metric.empty() && choice_.metric.empty();
  if (!own && !row.dimensions.contains("metric")) return false;
  return row.matches([&](const std::string& name) {
    return name == "metric" && !metric.empty() ? metric : dimension(cell, -1, name);
  });
}

std::optional<Results::Published> Results::published(const std::vector<const Cell*>& cells,
                                                     const std::string& metric) const {
  const auto values = [this](const auto& of, const std::string& name) {
    std::set<std::string> out;
    for (const Cell* cell : of) out.insert(dimension(*cell, -1, name));
    return out;
  };
  std::vector<const Cell*> all;
  for (const Cell& cell : cells_) all.push_back(&cell);
  for (const PublishedNumber& row : published_) {
    if (row.averaged_over.empty()) continue;
    const auto agrees = [&](const Cell* cell) { return belongs(row, *cell, metric); };
    if (!std::all_of(cells.begin(), cells.end(), agrees)) continue;
    // A published mean over all datasets, for example, does not apply to a subset.
    std::vector<const Cell*> whole;
    std::copy_if(all.begin(), all.end(), std::back_inserter(whole), agrees);
    const bool complete = std::all_of(
        row.averaged_over.begin(), row.averaged_over.end(),
        [&](const std::string& name) { return values(cells, name) == values(whole, name); });
    if (complete) return as_published(row);
  }
  Published out;
  for (const Cell* cell : cells) {
    const std::optional<Published> one = published(*cell, metric);
    if (!one) return std::nullopt;
    out.value += one->value;
    for (const std::string& note : one->notes) {
      if (std::find(out.notes.begin(), out.notes.end(), note) == out.notes.end())
        out.notes.push_back(note);
    }
  }
  out.value /= static_cast<double>(cells.size());
  return out;
}

std::vector<std::string> Results::values_of(const std::string& name) const {
  std::vector<std::string> out;
  for (const Cell& cell : cells_) {
    std::string value = dimension(cell, -1, name);
    if (std::find(out.begin(), out.end(), value) == out.end()) out.push_back(std::move(value));
  }
  return out;
}

std::string Results::dimension(const Cell& cell, int turn, const std::string& name) const {
  if (name == "model") return cell.model;
  if (name == "dataset") return cell.dataset;
  if (name == "task") return cell.task;
  if (name == "position") return cell.position;
  if (name == "method") return cell.method;
  if (name == "history") return cell.history;
  if (name == "answers") return cell.answers;
  if (name == "metric") return cell.metric;
  if (name == "turn") return turn < 0 ? "all" : std::to_string(turn + 1);
  if (name == kLengthDimension || name == kDepthDimension)
    return placed_in(manifest_.datasets, cell.dataset, name);
  if (name == kVariantDimension) return variant_of(cell);
  if (name.starts_with(kSettingPrefix)) {
    if (name == "method.name" && is_imported(cell)) return cell.method;
    return setting_of(cell, name.substr(kSettingPrefix.size())).value_or("-");
  }
  throw input_error("table: found the unknown dimension \"{}\", expected one of: {}",
                    printable(name), join(table_dimensions(), ", "));
}

}  // namespace turnbench
