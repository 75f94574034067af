#include "reports/marks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "harness/store/method_settings.h"

namespace turnbench {
namespace {

using PartKey = std::tuple<std::string, std::string, std::string, std::string, std::string, int>;

PartKey key_of(const TablePart& part) {
  const Cell& c = *part.cell;
  return {c.model, c.dataset, c.position, c.history, c.answers, part.turn};
}

/// Ranks the entries of one table.
class Ranking {
 public:
  Ranking(const TableLayout& layout, Pivot& pivot) : layout_(layout), pivot_(pivot) {
    for (const Cell& cell : distinct_methods(layout.results().cells())) {
      const bool is_dense = !is_imported(cell) && !is_probe(cell) &&
                            MethodSettings::parse(cell.method_canonical).is_exact();
      if (is_dense || is_probe(cell)) unranked_.insert(cell.method);
    }
  }

  void mark(std::size_t column) {
    std::map<std::vector<std::string>, std::vector<std::size_t>> groups;  // rows
    for (std::size_t row = 0; row < pivot_.rows.size(); ++row) {
      if (is_ranked(row, column)) groups[group_of(row)].push_back(row);
    }
    for (auto& [group, rows] : groups) mark(column, rows);
  }

 private:
  bool is_ranked(std::size_t row, std::size_t column) const {
    const auto& entry = pivot_.entries[row][column];
    const TableParts& parts = layout_.parts(row, column);
    return entry && entry->estimate.known &&
           std::none_of(parts.begin(), parts.end(), [&](const TablePart& part) {
             return unranked_.contains(part.cell->method);
           });
  }

  /// The values of a row's dimensions other than the method.
  std::vector<std::string> group_of(std::size_t row) const {
    std::vector<std::string> out;
    for (std::size_t d = 0; d < pivot_.row_dimensions.size(); ++d) {
      if (!is_of_method(pivot_.row_dimensions[d])) out.push_back(pivot_.rows[row][d]);
    }
    return out;
  }

  void mark(std::size_t column, std::vector<std::size_t>& rows) {
    const bool lower_is_better = pivot_.entries[rows.front()][column]->unit->lower_is_better;
    const auto mean = [&](std::size_t row) { return pivot_.entries[row][column]->estimate.mean; };
    std::stable_sort(rows.begin(), rows.end(), [&](std::size_t a, std::size_t b) {
      return lower_is_better ? mean(a) < mean(b) : mean(a) > mean(b);
    });
    const Mark marks[] = {Mark::kBest, Mark::kSecond};
    for (std::size_t i = 0; i < std::size(marks) && i + 1 < rows.size(); ++i) {
      if (i > 0 && mean(rows[i]) == mean(rows[i - 1])) break;  // it is as good as the best
      if (is_better(rows[i], rows[i + 1], column, lower_is_better))
        pivot_.entries[rows[i]][column]->mark = marks[i];
    }
  }

  /// Whether the interval of the paired difference is entirely on the better side.
  bool is_better(std::size_t row, std::size_t next, std::size_t column,
                 bool lower_is_better) const {
    const std::optional<Interval> interval =
        paired_estimate(pairs(layout_.parts(row, column), layout_.parts(next, column))).interval;
    return interval && (lower_is_better ? interval->high < 0 : interval->low > 0);
  }

  /// The parts of two entries that differ only in their methods.  Empty if the entries do not have
  /// the same datasets, positions and so on, because their means are then of other dialogues.
  std::vector<StratumPair> pairs(const TableParts& parts, const TableParts& of_next) const {
    std::multimap<PartKey, const Stratum*> others;
    for (const TablePart& part : scorable(of_next))
      others.emplace(key_of(part), &layout_.stratum(part));
    std::vector<StratumPair> out;
    for (const TablePart& part : scorable(parts)) {
      const auto found = others.find(key_of(part));
      if (found == others.end()) return {};
      out.push_back({&layout_.stratum(part), found->second});
      others.erase(found);
    }
    return others.empty() ? out : std::vector<StratumPair>();
  }

  const TableLayout& layout_;
  Pivot& pivot_;
  std::set<std::string> unranked_;  ///< labels of dense methods and probes
};

}  // namespace

void add_marks(const TableLayout& layout, Pivot& pivot) {
  Ranking ranking(layout, pivot);
  for (std::size_t column = 0; column < pivot.columns.size(); ++column) ranking.mark(column);
}

std::string marks_note(const std::vector<const Pivot*>& pivots, const std::string& best,
                       const std::string& second) {
  const bool any = std::any_of(pivots.begin(), pivots.end(),
                               [](const Pivot* pivot) { return pivot->has_marks(); });
  if (!any) return "";
  return fmt::format(
      "{}: best of its column, if the 95% interval of its paired difference to the next best "
      "excludes 0. {}: second best, in the same way compared with the third. Full attention is not "
      "ranked.",
      best, second);
}

}  // namespace turnbench
