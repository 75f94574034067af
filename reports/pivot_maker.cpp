// Computes the entries of a table: estimates, differences, published numbers, counters.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "common/text.h"
#include "reports/baseline_cells.h"
#include "reports/families.h"
#include "reports/marks.h"
#include "reports/pivot.h"
#include "reports/pivot_notes.h"
#include "reports/table_layout.h"

namespace turnbench {
namespace {

class PivotMaker {
 public:
  PivotMaker(const Results& results, const TableSpec& spec)
      : results_(results), spec_(spec), layout_(results, spec) {
    for (const BaselineRule& rule : spec.difference_to) baselines_.emplace_back(results, rule);
  }

  Pivot make(const Comparison& comparison);
  std::vector<NeededOfEntry> needed(double points) const;

 private:
  using Values = std::vector<std::string>;

  std::string reason(const TablePart& part) const;
  Values missing(const TableParts& parts) const;
  std::vector<StratumPair> pairs(const TableParts& parts, const BaselineCells& baselines) const;
  static bool has_difference(const TableParts& parts, const Pivot::Entry& entry,
                             const BaselineCells& baselines);
  void add_differences(Pivot& pivot, const Comparison& comparison) const;
  void compare_with_published(Pivot& pivot, double margin) const;
  std::optional<Pivot::Entry> entry(const TableParts& parts) const;
  void add_entries(Pivot& pivot) const;
  MethodLabels method_labels() const;
  void add_comparability(Pivot& pivot) const;

  const Results& results_;
  const TableSpec& spec_;
  TableLayout layout_;
  std::vector<BaselineCells> baselines_;  ///< for each rule
};

/// The reason why a part has no value.
std::string PivotMaker::reason(const TablePart& part) const {
  const Stratum& own = layout_.stratum(part);
  const Stratum& scores = results_.stratum(part.cell->key, part.turn);
  if (own.failed + scores.failed > 0) return "failed";
  // Other turns may have a reference, but predictions that were not imported will not run.
  const bool may_follow = !is_imported(*part.cell) && results_.progress(*part.cell).pending() > 0;
  const bool ran = own.without_value + scores.without_value > 0 || !scores.turns.empty() ||
                   (scores.without_reference > 0 && !may_follow);
  return ran ? kNoValue : kNotRun;
}

/// The parts that an entry's mean lacks; empty if no part has a value.
PivotMaker::Values PivotMaker::missing(const TableParts& parts) const {
  Values out, own;
  bool any = false;
  for (const TablePart& part : parts) {
    own.push_back(layout_.dialogues_of(part));
    if (!layout_.stratum(part).turns.empty()) {
      any = true;
      continue;
    }
    Values names;
    for (const std::string& name : layout_.averaged())
      names.push_back(layout_.dimension(part, name));
    out.push_back(fmt::format("{} ({})", join(names, ", "), reason(part)));
  }
  if (!any) return {};
  for (const std::string& name : layout_.expected_dialogues(parts.front())) {
    if (std::find(own.begin(), own.end(), name) == own.end()) out.push_back(name + " (not there)");
  }
  return out;
}

/// Each part with the same part of its baseline.
std::vector<StratumPair> PivotMaker::pairs(const TableParts& parts,
                                           const BaselineCells& baselines) const {
  static const Stratum nothing;
  std::vector<StratumPair> out;
  for (const TablePart& part : parts) {
    const Cell* baseline = baselines.of(*part.cell);
    out.push_back(
        {&layout_.stratum(part),
         baseline == nullptr ? &nothing : &layout_.stratum({baseline, part.turn, part.value})});
  }
  return out;
}

/// Whether an entry has a difference: it has a mean, and is not the baseline itself.
bool PivotMaker::has_difference(const TableParts& parts, const Pivot::Entry& entry,
                                const BaselineCells& baselines) {
  return entry.estimate.known && !std::all_of(parts.begin(), parts.end(), [&](const TablePart& p) {
           return baselines.has(*p.cell);
         });
}

std::optional<Pivot::Entry> PivotMaker::entry(const TableParts& all) const {
  if (all.empty()) return std::nullopt;
  const TableParts parts = scorable(all);
  std::vector<const Stratum*> strata;
  bool any = false;
  Pivot::Entry out;
  out.unit = &results_.unit_of(*all.front().value);
  out.differences.resize(baselines_.size());
  for (const TablePart& part : all) {
    out.cells.push_back(static_cast<std::size_t>(part.cell - results_.cells().data()));
    out.turn = part.turn;
  }
  for (const TablePart& part : parts) {
    strata.push_back(&layout_.stratum(part));
    any |= !strata.back()->turns.empty() || strata.back()->failed > 0;
    out.pending += results_.progress(*part.cell).pending();
  }
  if (!layout_.by_turn()) {
    const std::string& value = *all.front().value;
    const auto published =
        results_.published(cells_of(parts.empty() ? all : parts), value == "score" ? "" : value);
    if (published) {
      out.published = published->value;
      out.published_notes = published->notes;
    }
  }
  const bool open = out.pending > 0 &&
                    std::any_of(parts.begin(), parts.end(),
                                [&](const TablePart& part) { return reason(part) == kNotRun; });
  if (!any && !open && !out.published) return std::nullopt;
  out.missing = any ? missing(parts) : Values{open ? kNotRun : kNoValue};
  if (any) out.estimate = estimate(strata);
  out.estimate.known &= out.missing.empty();
  return out;
}

void PivotMaker::add_entries(Pivot& pivot) const {
  Averages averages(results_);
  for (std::size_t r = 0; r < pivot.rows.size(); ++r) {
    auto& entries = pivot.entries.emplace_back();
    std::vector<const TableParts*> of_row;
    for (std::size_t c = 0; c < pivot.columns.size(); ++c) {
      const TableParts& parts = layout_.parts(r, c);
      entries.push_back(entry(parts));
      if (entries.back())
        averages.add(cells_of(scorable(parts)), *parts.front().value, !layout_.by_turn());
      const bool counted = entries.back() || (!parts.empty() && scorable(parts).empty());
      if (counted) of_row.push_back(&parts);
    }
    pivot.counters.push_back(row_counters(results_, of_row));
  }
  pivot.averages = averages.dimensions();
}

/// Computes all differences of the table together: they form one family, and those of imported
/// predictions another.
void PivotMaker::add_differences(Pivot& pivot, const Comparison& comparison) const {
  std::vector<TestedDifference> tested;
  std::vector<std::optional<Difference>*> members;
  for (std::size_t r = 0; r < pivot.rows.size(); ++r) {
    for (std::size_t c = 0; c < pivot.columns.size(); ++c) {
      auto& entry = pivot.entries[r][c];
      if (!entry) continue;
      const TableParts parts = scorable(layout_.parts(r, c));
      for (std::size_t b = 0; b < baselines_.size(); ++b) {
        if (!has_difference(parts, *entry, baselines_[b])) continue;
        tested.push_back({pairs(parts, baselines_[b]), all_imported(cells_of(parts))});
        members.push_back(&entry->differences[b]);
      }
    }
  }
  std::vector<std::optional<Difference>> differences = compare_families(tested, comparison);
  for (std::size_t i = 0; i < members.size(); ++i) *members[i] = differences[i];
  if (has_two_families(tested)) pivot.notes.emplace_back(kTwoFamilies);
}

/// Tests whether means equal their published numbers within the margin.
void PivotMaker::compare_with_published(Pivot& pivot, double margin) const {
  if (margin == 0) return;
  for (std::size_t r = 0; r < pivot.rows.size(); ++r) {
    for (std::size_t c = 0; c < pivot.columns.size(); ++c) {
      auto& entry = pivot.entries[r][c];
      if (!entry || !entry->published || !entry->estimate.known) continue;
      std::vector<const Stratum*> strata;
      for (const TablePart& part : scorable(layout_.parts(r, c)))
        strata.push_back(&layout_.stratum(part));
      entry->published_equivalence = equivalence_to(*entry->published, strata, margin);
    }
  }
}

void PivotMaker::add_comparability(Pivot& pivot) const {
  std::vector<const Cell*> cells;
  std::vector<std::vector<const Cell*>> by_row(pivot.rows.size());
  for (std::size_t r = 0; r < pivot.rows.size(); ++r) {
    for (std::size_t c = 0; c < pivot.columns.size(); ++c) {
      const std::vector<const Cell*> of_entry = cells_of(layout_.parts(r, c));
      by_row[r].insert(by_row[r].end(), of_entry.begin(), of_entry.end());
    }
    cells.insert(cells.end(), by_row[r].begin(), by_row[r].end());
  }
  pivot.comparability = comparability(cells, results_.usages());
  for (const std::vector<const Cell*>& of_row : by_row)
    pivot.row_comparability.push_back(comparability_of(pivot.comparability, of_row));
}

/// Short labels, if methods are among the rows or columns.
MethodLabels PivotMaker::method_labels() const {
  for (const auto* dimensions : {&spec_.rows, &spec_.columns}) {
    if (std::find(dimensions->begin(), dimensions->end(), "method") == dimensions->end()) continue;
    std::vector<Cell> methods;
    for (const Cell* cell : layout_.methods()) methods.push_back(*cell);
    // A smoke run gives every method its label in the experiment.
    const Manifest& manifest = results_.manifest();
    return {methods, manifest.smoke.empty() ? manifest.given_labels : std::set<std::string>()};
  }
  return {};
}

Pivot PivotMaker::make(const Comparison& comparison) {
  Pivot out;
  out.value_names = spec_.values;
  for (const std::string& value : spec_.values) out.values.push_back(&results_.unit_of(value));
  out.title = title_of(layout_);
  out.row_dimensions = spec_.rows;
  out.column_dimensions = spec_.columns;
  out.rows = layout_.rows();
  out.columns = layout_.columns();
  out.method_labels = method_labels();
  out.baselines = names_of(spec_.difference_to);
  out.comparison = comparison;
  add_entries(out);
  add_differences(out, comparison);
  compare_with_published(out, comparison.margin);
  add_marks(layout_, out);
  add_comparability(out);
  out.basis = basis_of(layout_, out);
  add_notes(layout_, baselines_, out);
  return out;
}

std::vector<NeededOfEntry> PivotMaker::needed(double points) const {
  std::vector<NeededOfEntry> out;
  for (std::size_t r = 0; r < layout_.rows().size(); ++r) {
    for (std::size_t c = 0; c < layout_.columns().size(); ++c) {
      const auto of = entry(layout_.parts(r, c));
      if (!of) continue;
      const TableParts parts = scorable(layout_.parts(r, c));
      for (std::size_t b = 0; b < baselines_.size(); ++b) {
        if (!has_difference(parts, *of, baselines_[b])) continue;
        const std::vector<StratumPair> compared = pairs(parts, baselines_[b]);
        const std::optional<Difference> difference = compare({compared}).front();
        if (!difference) continue;
        out.push_back({layout_.rows()[r], layout_.columns()[c], spec_.difference_to[b].name(),
                       difference->estimate.mean, difference->estimate.dialogues,
                       needed_dialogues(compared, points)});
      }
    }
  }
  return out;
}

}  // namespace

Pivot make_pivot(const Results& results, const TableSpec& spec, const Comparison& comparison) {
  return PivotMaker(results, spec).make(comparison);
}

std::vector<NeededOfEntry> needed_dialogues(const Results& results, const TableSpec& spec,
                                            double points) {
  return PivotMaker(results, spec).needed(points);
}

}  // namespace turnbench
