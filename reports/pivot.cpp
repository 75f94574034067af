#include "reports/pivot.h"

#include <algorithm>

#include "common/error.h"
#include "common/text.h"

namespace turnbench {
namespace {

const Stratum kNothing;

}  // namespace

const std::vector<std::string>& reported_counters() {
  static const std::vector<std::string> names = {"kv_tokens", "kv_bytes", "attended_tokens",
                                                 "prefill_pairs_share"};
  return names;
}

Results::Results(const Store& store, const std::string& experiment)
    : manifest_(
          parse_manifest(store.manifest(experiment), store.path() + ": manifest of " + experiment)),
      cells_(store.cells(experiment)),
      failures_(store.failures(experiment)),
      environments_(store.environments(experiment)) {
  std::map<std::string, std::string> population;
  for (const Cell& cell : cells_) population[cell.key] = cell.dataset_hash;
  for (const ScoredTurn& turn : store.scores(experiment)) {
    turns_ = std::max(turns_, turn.turn + 1);
    for (int key : {-1, turn.turn}) {
      Stratum& stratum = strata_[{turn.cell, key}];
      stratum.population = population[turn.cell];
      if (turn.status != Record::Status::kOk) {
        ++stratum.failed;
        continue;
      }
      Stratum::Sum& sum = stratum.dialogues[turn.dialogue];
      sum.score += turn.score;
      ++sum.turns;
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

const Stratum& Results::stratum(const std::string& cell, int turn) const {
  const auto found = strata_.find({cell, turn < 0 ? -1 : turn});
  return found == strata_.end() ? kNothing : found->second;
}

std::optional<double> Results::counter(const std::string& cell, const std::string& name) const {
  const auto& values = counters_.at(name);
  const auto found = values.find(cell);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

std::optional<double> Results::published(const Cell& cell) const {
  for (const auto& row : published_) {
    const auto& named = row.dimensions;
    const bool match = std::all_of(named.begin(), named.end(), [&](const auto& field) {
      return dimension(cell, -1, field.first) == field.second;
    });
    if (match) return row.value;
  }
  return std::nullopt;
}

std::string dimension(const Cell& cell, int turn, const std::string& name) {
  if (name == "model") return cell.model;
  if (name == "dataset") return cell.dataset;
  if (name == "task") return cell.task;
  if (name == "position") return cell.position;
  if (name == "method") return cell.method;
  if (name == "history") return cell.history;
  if (name == "answers") return cell.answers;
  if (name == "metric") return cell.metric;
  if (name == "turn") return turn < 0 ? "all" : std::to_string(turn + 1);
  throw input_error("table: found the unknown dimension \"{}\", expected one of: {}",
                    printable(name), join(table_dimensions(), ", "));
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
  out.row_dimensions = spec.rows;
  out.column_dimensions = spec.columns;
  out.baseline = spec.difference_to;
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const bool by_turn = has(spec.rows, "turn") || has(spec.columns, "turn");

  // Which strata make up which entry.
  struct Part {
    const Cell* cell;
    int turn;
  };
  std::map<std::pair<std::size_t, std::size_t>, std::vector<Part>> parts;
  const auto index_of = [](std::vector<std::vector<std::string>>& known,
                           const std::vector<std::string>& values) {
    const auto found = std::find(known.begin(), known.end(), values);
    if (found != known.end()) return static_cast<std::size_t>(found - known.begin());
    known.push_back(values);
    return known.size() - 1;
  };
  for (const Cell& cell : results.cells()) {
    for (int turn = by_turn ? 0 : -1; turn < (by_turn ? results.turns() : 0); ++turn) {
      std::vector<std::string> row, column;
      for (const std::string& name : spec.rows) row.push_back(dimension(cell, turn, name));
      for (const std::string& name : spec.columns) column.push_back(dimension(cell, turn, name));
      const std::size_t r = index_of(out.rows, row), c = index_of(out.columns, column);
      parts[{r, c}].push_back({&cell, turn});
    }
  }
  const auto strata_of = [&](const std::vector<Part>& list) {
    std::vector<const Stratum*> strata;
    for (const Part& p : list) {
      const Stratum& s = results.stratum(p.cell->key, p.turn);
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
          pairs.push_back(
              {&results.stratum(p.cell->key, p.turn), &results.stratum(other.key, p.turn)});
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
    double published = 0;
    bool all_published = true;
    for (const Part& p : list) {
      const std::optional<double> value = results.published(*p.cell);
      published += value.value_or(0);
      all_published &= value.has_value();
    }
    if (all_published) entry.published = published / static_cast<double>(list.size());
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
    out.entries[place.first][place.second] = std::move(entry);
  }
  return out;
}

}  // namespace turnbench
