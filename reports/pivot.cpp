#include "reports/pivot.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "common/mean.h"
#include "common/text.h"
#include "reports/baseline_cells.h"
#include "reports/families.h"
#include "reports/headings.h"

namespace turnbench {
namespace {

/// Why an entry, or a part of one, has no value.
constexpr const char *kNotRun = "not run", *kNoValue = "no value";

/// Sorts rows and columns in the manifest's order of the values of each dimension.  Cells are in
/// this order, so a value's rank is that of its first appearance.
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

bool contains(const std::vector<std::string>& list, std::string_view value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

/// Builds one table: which strata form which entry, and all derived values.
class PivotMaker {
 public:
  PivotMaker(const Results& results, const TableSpec& spec)
      : results_(results), spec_(spec), baselines_(results, spec.difference_to) {
    for (const auto* list : {&spec.rows, &spec.columns})
      named_.insert(named_.end(), list->begin(), list->end());
    by_turn_ = contains(named_, "turn");
    find_unreferenced();
    place_cells();
  }

  Pivot make(const Comparison& comparison);
  std::vector<NeededOfEntry> needed(double points) const;

 private:
  struct Part {
    const Cell* cell;
    int turn;
    bool has_reference = true;  ///< false: none of its turns can be scored
  };
  using Parts = std::vector<Part>;
  using Values = std::vector<std::string>;

  void place_cells();
  void find_unreferenced();
  static Parts scorable(const Parts& parts);
  static std::vector<const Cell*> cells_of(const Parts& parts);
  const Stratum& stratum(const Part& part) const {
    return results_.stratum(part.cell->key, part.turn, spec_.value);
  }
  std::string reason(const Part& part) const;
  Values missing(const Parts& parts) const;
  std::vector<StratumPair> pairs(const Parts& parts) const;
  bool has_difference(const Parts& parts, const Pivot::Entry& entry) const;
  void add_differences(Pivot& pivot, const Comparison& comparison) const;
  std::string dialogues() const;
  Values peers_place(const Cell& cell, int turn) const;
  std::optional<Pivot::Entry> entry(const Parts& parts) const;
  std::map<std::string, Pivot::Range> counters(const std::vector<const Parts*>& row) const;
  void add_notes(Pivot& pivot) const;

  const Results& results_;
  const TableSpec& spec_;
  Values named_;  ///< dimensions of rows and columns
  bool by_turn_ = false;
  Values averaged_;  ///< dimensions over which entries average: several values, and not named
  std::map<Order::Place, Values> rows_, columns_;
  std::map<std::pair<Order::Place, Order::Place>, Parts> parts_;
  /// The datasets for which any method was planned, by the place of their entries.
  std::map<Values, Values> datasets_;
  BaselineCells baselines_;
  std::set<std::pair<std::string, int>> unreferenced_;  ///< datasets (hashes) and turns
};

/// The place of a cell's entry, regardless of its method.
PivotMaker::Values PivotMaker::peers_place(const Cell& cell, int turn) const {
  Values out;
  for (const std::string& name : named_) {
    const bool of_method = name == "method" || name.starts_with(kSettingPrefix) ||
                           name == "history" || name == "answers" || name == "model";
    if (!of_method) out.push_back(results_.dimension(cell, turn, name));
  }
  return out;
}

/// Finds datasets without any reference.  They are the same for all methods, including failed ones.
void PivotMaker::find_unreferenced() {
  for (const Cell& cell : results_.cells()) {
    for (int turn = -1; turn < (by_turn_ ? results_.turns() : 0); ++turn) {
      const Stratum& s = stratum({&cell, turn});
      if (s.without_reference > 0 && s.turns.empty())
        unreferenced_.emplace(cell.dataset_hash, turn);
    }
  }
}

PivotMaker::Parts PivotMaker::scorable(const Parts& parts) {
  Parts out;
  std::copy_if(parts.begin(), parts.end(), std::back_inserter(out),
               [](const Part& part) { return part.has_reference; });
  return out;
}

std::vector<const Cell*> PivotMaker::cells_of(const Parts& parts) {
  std::vector<const Cell*> out;
  for (const Part& part : parts) out.push_back(part.cell);
  return out;
}

void PivotMaker::place_cells() {
  Order order;
  for (const Cell& cell : results_.cells()) {
    const int turns = std::min(results_.turns(), results_.turns_of(cell));
    for (int turn = by_turn_ ? 0 : -1; turn < (by_turn_ ? turns : 0); ++turn) {
      Values row, column;
      for (const std::string& name : spec_.rows)
        row.push_back(results_.dimension(cell, turn, name));
      for (const std::string& name : spec_.columns)
        column.push_back(results_.dimension(cell, turn, name));
      const Order::Place r = order.place(spec_.rows, row), c = order.place(spec_.columns, column);
      rows_[r] = std::move(row);
      columns_[c] = std::move(column);
      const bool has_reference = !unreferenced_.contains({cell.dataset_hash, turn});
      parts_[{r, c}].push_back({&cell, turn, has_reference});
      if (!has_reference) continue;
      Values& datasets = datasets_[peers_place(cell, turn)];
      if (!contains(datasets, cell.dataset)) datasets.push_back(cell.dataset);
    }
  }
  for (const char* name : {"model", "dataset", "position", "method", "history", "answers"}) {
    if (!contains(named_, name) && results_.values_of(name).size() > 1) averaged_.push_back(name);
  }
}

/// The reason why a part has no value.
std::string PivotMaker::reason(const Part& part) const {
  const Stratum& own = stratum(part);
  const Stratum& scores = results_.stratum(part.cell->key, part.turn);
  if (own.failed + scores.failed > 0) return "failed";
  const bool ran = own.without_value + scores.without_value + scores.without_reference > 0 ||
                   !scores.turns.empty();
  return ran ? kNoValue : kNotRun;
}

/// The parts that an entry's mean lacks; empty if no part has a value.
PivotMaker::Values PivotMaker::missing(const Parts& parts) const {
  Values out, datasets;
  bool any = false;
  for (const Part& part : parts) {
    datasets.push_back(part.cell->dataset);
    if (!stratum(part).turns.empty()) {
      any = true;
      continue;
    }
    Values names;
    for (const std::string& name : averaged_)
      names.push_back(results_.dimension(*part.cell, part.turn, name));
    out.push_back(fmt::format("{} ({})", join(names, ", "), reason(part)));
  }
  if (!any) return {};
  const Part& first = parts.front();
  for (const std::string& dataset : datasets_.at(peers_place(*first.cell, first.turn))) {
    if (!contains(datasets, dataset)) out.push_back(dataset + " (not there)");
  }
  return out;
}

/// Each part with the same part of the baseline method.
std::vector<StratumPair> PivotMaker::pairs(const Parts& parts) const {
  static const Stratum nothing;
  std::vector<StratumPair> out;
  for (const Part& part : parts) {
    const Cell* baseline = baselines_.of(*part.cell);
    out.push_back(
        {&stratum(part), baseline == nullptr ? &nothing : &stratum({baseline, part.turn})});
  }
  return out;
}

/// Whether an entry has a difference: it has a mean, and is not the baseline itself.
bool PivotMaker::has_difference(const Parts& parts, const Pivot::Entry& entry) const {
  const bool is_baseline = std::all_of(parts.begin(), parts.end(), [&](const Part& part) {
    return part.cell->method == spec_.difference_to;
  });
  return entry.estimate.known && !spec_.difference_to.empty() && !is_baseline;
}

std::optional<Pivot::Entry> PivotMaker::entry(const Parts& all) const {
  const Parts parts = scorable(all);
  std::vector<const Stratum*> strata;
  bool any = false;
  Pivot::Entry out;
  for (const Part& part : all) {
    out.cells.push_back(static_cast<std::size_t>(part.cell - results_.cells().data()));
    out.turn = part.turn;
  }
  for (const Part& part : parts) {
    strata.push_back(&stratum(part));
    any |= !strata.back()->turns.empty() || strata.back()->failed > 0;
    out.pending += results_.progress(*part.cell).pending();
  }
  if (!by_turn_) {
    const std::string metric = spec_.value == "score" ? "" : spec_.value;
    if (const auto published = results_.published(cells_of(parts.empty() ? all : parts), metric)) {
      out.published = published->value;
      out.published_notes = published->notes;
    }
  }
  const bool open =
      out.pending > 0 && std::any_of(parts.begin(), parts.end(),
                                     [&](const Part& part) { return reason(part) == kNotRun; });
  if (!any && !open && !out.published) return std::nullopt;
  out.missing = any ? missing(parts) : Values{open ? kNotRun : kNoValue};
  if (any) out.estimate = estimate(strata);
  out.estimate.known &= out.missing.empty();
  return out;
}

std::map<std::string, Pivot::Range> PivotMaker::counters(
    const std::vector<const Parts*>& row) const {
  std::map<std::string, Pivot::Range> out;
  for (const ReportedCounter& counter : reported_counters()) {
    using Setting = std::pair<std::string, std::string>;  // method, history
    std::map<Setting, Mean> means;
    // Cells; in columns of single turns, counters are over all turns.
    std::set<std::string> counted;
    for (const Parts* parts : row) {
      std::map<Setting, Mean> of_entry;
      for (const Part& part : *parts) {
        if (!counted.insert(part.cell->key).second) continue;
        if (const auto value = results_.counter(part.cell->key, counter.name))
          of_entry[{part.cell->method_canonical, part.cell->history}].add(*value);
      }
      for (const auto& [setting, mean] : of_entry) means[setting].add(mean.value());
    }
    for (const auto& [setting, mean] : means) {
      const auto [range, first] =
          out.try_emplace(counter.name, Pivot::Range{mean.value(), mean.value()});
      range->second.low = std::min(range->second.low, mean.value());
      range->second.high = std::max(range->second.high, mean.value());
    }
  }
  return out;
}

void PivotMaker::add_notes(Pivot& pivot) const {
  constexpr std::size_t kShown = 8;
  Values holes, remarks;                  // remarks in the order of their first entry
  std::map<std::string, Values> entries;  // by remark
  for (std::size_t r = 0; r < pivot.rows.size(); ++r) {
    for (std::size_t c = 0; c < pivot.columns.size(); ++c) {
      const auto& e = pivot.entries[r][c];
      if (!e) continue;
      const std::string place = value_heading(spec_.rows, pivot.rows[r]) + ", " +
                                value_heading(spec_.columns, pivot.columns[c]);
      const bool is_hole =
          !e->missing.empty() && e->missing.front() != kNoValue &&
          e->missing.front() != kNotRun;  // another note counts the parts that have not run
      if (is_hole) holes.push_back(fmt::format("{} lacks {}", place, join(e->missing, ", ")));
      for (const std::string& remark : e->published_notes) {
        if (!contains(remarks, remark)) remarks.push_back(remark);
        if (!contains(entries[remark], place)) entries[remark].push_back(place);
      }
    }
  }
  if (!holes.empty()) {
    const std::size_t more = holes.size() - std::min(holes.size(), kShown);
    holes.resize(holes.size() - more);
    pivot.notes.push_back("No mean (–) where a part of it is missing: " + join(holes, "; ") +
                          (more > 0 ? fmt::format("; and {} more.", more) : "."));
  }
  for (const std::string& remark : remarks)
    pivot.notes.push_back(
        fmt::format("The paper's number for {}: {}", join(entries[remark], "; "), remark));
}

/// Computes all differences of the table together: they form one family, and those of imported
/// predictions another.
void PivotMaker::add_differences(Pivot& pivot, const Comparison& comparison) const {
  std::vector<TestedDifference> tested;
  std::vector<Pivot::Entry*> members;
  std::size_t r = 0;
  for (const auto& [row, row_values] : rows_) {
    std::size_t c = 0;
    for (const auto& [column, column_values] : columns_) {
      auto& entry = pivot.entries[r][c++];
      if (!entry) continue;
      const Parts parts = scorable(parts_.at({row, column}));
      if (!has_difference(parts, *entry)) continue;
      tested.push_back({pairs(parts), all_imported(cells_of(parts))});
      members.push_back(&*entry);
    }
    ++r;
  }
  std::vector<std::optional<Difference>> differences = compare_families(tested, comparison);
  for (std::size_t i = 0; i < members.size(); ++i) members[i]->difference = differences[i];
  if (has_two_families(tested)) pivot.notes.emplace_back(kTwoFamilies);
}

/// The number of dialogues with scores in the parts of the table.
std::string PivotMaker::dialogues() const {
  struct Range {
    std::size_t least = 0, most = 0;
    std::string text() const {
      return least == most ? std::to_string(least) : fmt::format("{} to {}", least, most);
    }
  };
  Values names;
  std::map<std::string, Range> ranges;
  for (const auto& [place, parts] : parts_) {
    for (const Part& part : parts) {
      const std::vector<TurnValue>& turns = stratum(part).turns;
      std::size_t count = 0;
      for (std::size_t i = 0; i < turns.size(); ++i)
        count += i == 0 || turns[i].dialogue != turns[i - 1].dialogue;
      if (count == 0) continue;
      const auto [found, first] = ranges.try_emplace(part.cell->dataset, Range{count, count});
      if (first) names.push_back(part.cell->dataset);
      found->second.least = std::min(found->second.least, count);
      found->second.most = std::max(found->second.most, count);
    }
  }
  if (names.empty()) return "";
  const bool alike = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return ranges[name].text() == ranges[names.front()].text();
  });
  if (alike && names.size() > 1) {
    return fmt::format("Dialogues: {} of each of {} datasets.", ranges[names.front()].text(),
                       names.size());
  }
  std::vector<std::string> each;
  for (const std::string& name : names)
    each.push_back(fmt::format("{} {}", name, ranges[name].text()));
  return "Dialogues: " + join(each, ", ") + ".";
}

Pivot PivotMaker::make(const Comparison& comparison) {
  Pivot out;
  const TableValue& unit = results_.unit_of(spec_.value);
  const std::string meaning = unit.name != "score" ? fmt::format("{} ({})", unit.meaning, unit.unit)
                              : spec_.value == "score" ? name_of(results_.score_choice())
                                                       : spec_.value;
  out.title = spec_.title;
  if (!meaning.empty()) out.title += (out.title.empty() ? "" : ": ") + meaning;
  out.value = &unit;
  out.row_dimensions = spec_.rows;
  out.column_dimensions = spec_.columns;
  out.baseline = spec_.difference_to;
  out.comparison = comparison;
  for (const auto& [place, values] : columns_) out.columns.push_back(values);
  bool has_blanks = false;  // for entries that should have cells
  Averages averages(results_, spec_.value);
  for (const auto& [row, values] : rows_) {
    out.rows.push_back(values);
    auto& entries = out.entries.emplace_back();
    std::vector<const Parts*> of_row;
    for (const auto& [column, names] : columns_) {
      const auto found = parts_.find({row, column});
      entries.push_back(found == parts_.end() ? std::nullopt : entry(found->second));
      has_blanks |= found != parts_.end() && !entries.back();
      if (entries.back()) averages.add(cells_of(scorable(found->second)), !by_turn_);
      const bool counted =
          entries.back() || (found != parts_.end() && scorable(found->second).empty());
      if (counted) of_row.push_back(&found->second);
    }
    out.counters.push_back(counters(of_row));
  }
  add_differences(out, comparison);
  out.basis = dialogues();
  out.averages = averages.dimensions();
  std::vector<const Cell*> cells;
  std::map<Order::Place, std::vector<const Cell*>> by_row;
  for (const auto& [place, parts] : parts_) {
    for (const Part& part : parts) {
      cells.push_back(part.cell);
      by_row[place.first].push_back(part.cell);
    }
  }
  out.comparability = comparability(cells, results_.usages());
  for (const auto& [row, of_row] : by_row)
    out.row_comparability.push_back(comparability_of(out.comparability, of_row));
  if (!out.averages.empty()) out.basis += (out.basis.empty() ? "" : " ") + describe(out.averages);
  if (out.has_differences()) out.basis += " Differences to " + out.baseline + ".";
  if (has_blanks && !unit.only_of.empty())
    out.notes.push_back(fmt::format("Blank: only {} have {}.", unit.only_of, unit.name));
  add_notes(out);
  return out;
}

std::vector<NeededOfEntry> PivotMaker::needed(double points) const {
  std::vector<NeededOfEntry> out;
  for (const auto& [row, row_values] : rows_) {
    for (const auto& [column, column_values] : columns_) {
      const auto found = parts_.find({row, column});
      if (found == parts_.end()) continue;
      const auto of = entry(found->second);
      const Parts parts = scorable(found->second);
      if (!of || !has_difference(parts, *of)) continue;
      const std::vector<StratumPair> compared = pairs(parts);
      const std::optional<Difference> difference = compare({compared}).front();
      if (!difference) continue;
      out.push_back({row_values, column_values, difference->estimate.mean,
                     difference->estimate.dialogues, needed_dialogues(compared, points)});
    }
  }
  return out;
}

template <typename Test>
bool any_entry(const Pivot& pivot, const Test& test) {
  return std::any_of(pivot.entries.begin(), pivot.entries.end(), [&](const auto& row) {
    return std::any_of(row.begin(), row.end(),
                       [&](const auto& entry) { return entry && test(*entry); });
  });
}

}  // namespace

const std::vector<ReportedCounter>& reported_counters() {
  static const std::vector<ReportedCounter> counters = {
      {"kv_tokens", "kept", "tokens cached per KV head when the answer begins", 0},
      {"attended_tokens", "read", "tokens that a decode step attends to", 0},
      {"prefill_pairs_share", "pairs", "share of the causal pairs that prefill attention computes",
       2}};
  return counters;
}

bool Pivot::has_published() const {
  return any_entry(*this, [](const Entry& e) { return e.published.has_value(); });
}

bool Pivot::has_missing() const {
  return any_entry(*this, [](const Entry& e) { return !e.missing.empty(); });
}

bool Pivot::has_pending() const {
  return any_entry(*this, [](const Entry& e) { return e.pending > 0; });
}

bool Pivot::has_published_notes() const {
  return any_entry(*this, [](const Entry& e) { return !e.published_notes.empty(); });
}

bool Pivot::has_differences() const {
  return any_entry(*this, [](const Entry& e) { return e.difference.has_value(); });
}

bool Pivot::has_equivalence() const {
  return any_entry(
      *this, [](const Entry& e) { return e.difference && e.difference->equivalence.has_value(); });
}

bool Pivot::has_counters() const {
  return std::any_of(counters.begin(), counters.end(), [](const auto& c) { return !c.empty(); });
}

bool Pivot::shows(const ReportedCounter& counter) const {
  return std::any_of(counters.begin(), counters.end(),
                     [&](const auto& row) { return row.contains(counter.name); });
}

std::vector<ReportedCounter> Pivot::shown_counters() const {
  std::vector<ReportedCounter> out;
  std::copy_if(reported_counters().begin(), reported_counters().end(), std::back_inserter(out),
               [&](const ReportedCounter& counter) { return shows(counter); });
  return out;
}

std::string Pivot::counter_text(std::size_t row, const std::string& name) const {
  const auto found = counters[row].find(name);
  if (found == counters[row].end()) return "";
  const auto of_name = [&](const ReportedCounter& c) { return c.name == name; };
  const int digits =
      std::find_if(reported_counters().begin(), reported_counters().end(), of_name)->digits;
  const std::string low = fmt::format("{:.{}f}", found->second.low, digits),
                    high = fmt::format("{:.{}f}", found->second.high, digits);
  return low == high ? low : low + "–" + high;
}

Pivot make_pivot(const Results& results, const TableSpec& spec, const Comparison& comparison) {
  return PivotMaker(results, spec).make(comparison);
}

std::vector<NeededOfEntry> needed_dialogues(const Results& results, const TableSpec& spec,
                                            double points) {
  return PivotMaker(results, spec).needed(points);
}

}  // namespace turnbench
