#include "reports/pivot.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "common/error.h"
#include "common/text.h"
#include "harness/plan.h"

namespace turnbench {
namespace {

const Stratum kNothing;

/// Sorts rows and columns as the manifest lists the values of each of their dimensions: cells come
/// in that order, so a value's rank is that of its first appearance.
class Order {
 public:
  using Place = std::vector<std::size_t>;
  Place place(const std::vector<std::string>& dimensions, const std::vector<std::string>& values) {
    Place out;
    for (std::size_t i = 0; i < dimensions.size(); ++i) {
      std::map<std::string, std::size_t>& ranks = ranks_[dimensions[i]];
      out.push_back(ranks.try_emplace(values[i], ranks.size()).first->second);
    }
    return out;
  }

 private:
  std::map<std::string, std::map<std::string, std::size_t>> ranks_;
};

/// Settles which postprocess is meant: the cells' own, or the only one that there is.
ScoreChoice choose(const Store& store, const std::string& experiment, ScoreChoice choice) {
  const std::map<std::string, bool> known = store.postprocesses(experiment, choice.metric);
  if (known.empty()) {
    throw input_error("{}: found no scores of {} by \"{}\", expected a metric of: {}", store.path(),
                      experiment, printable(choice.metric), join(store.metrics(experiment), ", "));
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

}  // namespace

std::string name_of(const ScoreChoice& choice) {
  if (choice.postprocess.empty()) return choice.metric;
  return fmt::format("{} ({})", choice.metric, choice.postprocess);
}

const std::vector<std::string>& reported_counters() {
  static const std::vector<std::string> names = {"kv_tokens", "kv_bytes", "attended_tokens",
                                                 "prefill_pairs_share"};
  return names;
}

Results::Results(const Store& store, const std::string& experiment, const ScoreChoice& choice)
    : manifest_(parse_manifest(store.manifest(experiment),
                               store.path() + ": manifest of " + experiment, ManifestUse::kReport)),
      cells_(store.cells(experiment)),
      failures_(store.failures(experiment)),
      environments_(store.environments(experiment)),
      truncations_(store.truncations(experiment)) {
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
  std::map<std::string, std::string> population;
  for (const Cell& cell : cells_) population[cell.key] = cell.dataset_hash;
  std::set<std::string> values = {"score"};
  for (const TableSpec& table : manifest_.tables) values.insert(table.value);
  for (const std::string& value : values) {
    const TableValue* unit = find_table_value(value);
    const bool is_score = shows_scores(value);
    const double scale = unit == nullptr ? 1 : unit->scale / 100;
    for (const ScoredTurn& turn : is_score ? store.scores(experiment, choice_of(store, value))
                                           : store.values(experiment, value)) {
      if (value == "score") turns_ = std::max(turns_, turn.turn + 1);
      for (int key : {-1, turn.turn}) {
        Stratum& stratum = strata_[{value, turn.cell, key}];
        stratum.population = population[turn.cell];
        stratum.is_score = is_score;
        if (turn.status != Record::Status::kOk) {
          ++(is_failure(turn.status) ? stratum.failed : stratum.without_value);
          continue;
        }
        Stratum::Sum& sum = stratum.dialogues[turn.dialogue];
        sum.score += turn.score * scale;
        ++sum.turns;
      }
    }
  }
  const auto done = store.done(experiment);
  for (const Cell& cell : cells_) {
    for (const auto& [id, turns] : store.dialogues(cell.dataset_hash)) {
      const auto found = done.find({cell.key, id});
      pending_ += found == done.end() || found->second < turns;
    }
  }
  for (const std::string& name : reported_counters())
    counters_[name] = store.mean_counter(experiment, name);
  published_ = parse_published(store.published(experiment),
                               store.path() + ": published numbers of " + experiment);
}

ScoreChoice Results::choice_of(const Store& store, const std::string& value) const {
  if (value == "score") return choice_;
  const ScoreChoice metric{value, ""};
  const bool any = !store.postprocesses(manifest_.name, value).empty();
  return any ? choose(store, manifest_.name, metric) : metric;  // nothing was scored by it yet
}

const Stratum& Results::stratum(const std::string& cell, int turn, const std::string& value) const {
  const auto found = strata_.find({value, cell, turn < 0 ? -1 : turn});
  return found == strata_.end() ? kNothing : found->second;
}

Truncation Results::truncation(const std::string& cell) const {
  const auto found = truncations_.find(cell);
  return found == truncations_.end() ? Truncation() : found->second;
}

Truncation Results::truncation() const {
  return total(truncations_);
}

std::optional<double> Results::counter(const std::string& cell, const std::string& name) const {
  const auto& values = counters_.at(name);
  const auto found = values.find(cell);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

std::optional<double> Results::published(const Cell& cell, const std::string& metric) const {
  for (const PublishedNumber& row : published_) {
    if (row.averaged.empty() && belongs(row, cell, metric)) return row.value;
  }
  return std::nullopt;
}

/// Whether a printed number is one of a cell's scores by `metric`, or by its own.
bool Results::belongs(const PublishedNumber& row, const Cell& cell,
                      const std::string& metric) const {
  const bool own = metric.empty() && choice_.metric.empty();
  if (!own && !row.dimensions.contains("metric")) return false;
  return row.agrees([&](const std::string& name) {
    return name == "metric" && !metric.empty() ? metric : dimension(cell, -1, name);
  });
}

std::optional<double> Results::published(const std::vector<const Cell*>& cells,
                                         const std::string& metric) const {
  const auto values = [this](const auto& of, const std::string& name) {
    std::set<std::string> out;
    for (const Cell* cell : of) out.insert(dimension(*cell, -1, name));
    return out;
  };
  std::vector<const Cell*> all;
  for (const Cell& cell : cells_) all.push_back(&cell);
  for (const PublishedNumber& row : published_) {
    if (row.averaged.empty()) continue;
    const auto agrees = [&](const Cell* cell) { return belongs(row, *cell, metric); };
    if (!std::all_of(cells.begin(), cells.end(), agrees)) continue;
    // A mean over all datasets, say, is not that of some of them.
    std::vector<const Cell*> whole;
    std::copy_if(all.begin(), all.end(), std::back_inserter(whole), agrees);
    const bool complete = std::all_of(
        row.averaged.begin(), row.averaged.end(),
        [&](const std::string& name) { return values(cells, name) == values(whole, name); });
    if (complete) return row.value;
  }
  double sum = 0;
  for (const Cell* cell : cells) {
    const std::optional<double> value = published(*cell, metric);
    if (!value) return std::nullopt;
    sum += *value;
  }
  return sum / static_cast<double>(cells.size());
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
  if (name.starts_with(kSettingPrefix)) {
    return setting_of(cell, name.substr(kSettingPrefix.size())).value_or("-");
  }
  throw input_error("table: found the unknown dimension \"{}\", expected one of: {}",
                    printable(name), join(table_dimensions(), ", "));
}

bool Pivot::has_published() const {
  return std::any_of(entries.begin(), entries.end(), [](const auto& row) {
    return std::any_of(row.begin(), row.end(),
                       [](const auto& entry) { return entry && entry->published; });
  });
}

bool Pivot::has_counters() const {
  for (const auto& row : entries) {
    for (const auto& e : row) {
      if (e && !e->counters.empty()) return true;
    }
  }
  return false;
}

std::optional<double> Pivot::mean_counter(std::size_t row, const std::string& name) const {
  double sum = 0;
  int count = 0;
  for (const auto& e : entries[row]) {
    if (!e || !e->counters.contains(name)) continue;
    sum += e->counters.at(name);
    ++count;
  }
  return count == 0 ? std::nullopt : std::optional(sum / count);
}

Pivot make_pivot(const Results& results, const TableSpec& spec) {
  Pivot out;
  out.title = spec.title;
  const TableValue* unit = find_table_value(spec.value);
  std::string meaning = unit == nullptr         ? spec.value
                        : spec.value != "score" ? fmt::format("{} ({})", unit->meaning, unit->unit)
                                                : name_of(results.choice());
  if (!meaning.empty()) out.title += (out.title.empty() ? "" : ": ") + meaning;
  out.row_dimensions = spec.rows;
  out.column_dimensions = spec.columns;
  out.baseline = spec.difference_to;
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const bool by_turn = has(spec.rows, "turn") || has(spec.columns, "turn");

  // Which strata make up which entry, by row and column.
  struct Part {
    const Cell* cell;
    int turn;
  };
  std::map<std::pair<Order::Place, Order::Place>, std::vector<Part>> parts;
  std::map<Order::Place, std::vector<std::string>> rows, columns;
  Order order;
  for (const Cell& cell : results.cells()) {
    for (int turn = by_turn ? 0 : -1; turn < (by_turn ? results.turns() : 0); ++turn) {
      std::vector<std::string> row, column;
      for (const std::string& name : spec.rows) row.push_back(results.dimension(cell, turn, name));
      for (const std::string& name : spec.columns)
        column.push_back(results.dimension(cell, turn, name));
      const Order::Place r = order.place(spec.rows, row), c = order.place(spec.columns, column);
      rows[r] = std::move(row);
      columns[c] = std::move(column);
      parts[{r, c}].push_back({&cell, turn});
    }
  }
  for (const auto& [place, values] : rows) out.rows.push_back(values);
  for (const auto& [place, values] : columns) out.columns.push_back(values);
  const auto index = [](const auto& places, const Order::Place& place) {
    return static_cast<std::size_t>(std::distance(places.begin(), places.find(place)));
  };
  const auto strata_of = [&](const std::vector<Part>& list) {
    std::vector<const Stratum*> strata;
    for (const Part& p : list) {
      const Stratum& s = results.stratum(p.cell->key, p.turn, spec.value);
      if (!s.dialogues.empty() || s.failed > 0) strata.push_back(&s);
    }
    return strata;
  };
  // Each part beside the same part of the baseline method.
  const auto pairs_of = [&](const std::vector<Part>& list) {
    std::vector<StratumPair> pairs;
    for (const Part& p : list) {
      for (const Cell& other : results.cells()) {
        if (other.method == spec.difference_to && other.model == p.cell->model &&
            other.dataset == p.cell->dataset && other.position == p.cell->position &&
            other.history == p.cell->history && other.answers == p.cell->answers) {
          pairs.push_back({&results.stratum(p.cell->key, p.turn, spec.value),
                           &results.stratum(other.key, p.turn, spec.value)});
        }
      }
    }
    return pairs;
  };
  out.entries.assign(out.rows.size(), std::vector<std::optional<Pivot::Entry>>(out.columns.size()));
  for (const auto& [place, list] : parts) {
    const std::vector<const Stratum*> strata = strata_of(list);
    if (strata.empty()) continue;
    Pivot::Entry entry;
    entry.estimate = estimate(strata);
    const bool is_baseline = std::all_of(list.begin(), list.end(), [&](const Part& p) {
      return p.cell->method == spec.difference_to;
    });
    if (!spec.difference_to.empty() && !is_baseline) {
      const Estimate difference = estimate_difference(pairs_of(list));
      if (difference.turns > 0) entry.difference = difference;
    }
    std::vector<const Cell*> cells;
    for (const Part& p : list) cells.push_back(p.cell);
    if (!by_turn && shows_scores(spec.value))
      entry.published = results.published(cells, unit == nullptr ? spec.value : "");
    for (const std::string& name : reported_counters()) {
      double sum = 0;
      int count = 0;
      for (const Part& p : list) {
        if (const auto value = results.counter(p.cell->key, name)) {
          sum += *value;
          ++count;
        }
      }
      if (count > 0) entry.counters[name] = sum / count;
    }
    out.entries[index(rows, place.first)][index(columns, place.second)] = std::move(entry);
  }
  return out;
}

}  // namespace turnbench
