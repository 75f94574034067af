#include "reports/pivot.h"

#include <algorithm>
#include <iterator>

#include "common/text.h"
#include "reports/headings.h"

namespace turnbench {
namespace {

template <typename Test>
bool any_entry(const Pivot& pivot, const Test& test) {
  return std::any_of(pivot.entries.begin(), pivot.entries.end(), [&](const auto& row) {
    return std::any_of(row.begin(), row.end(),
                       [&](const auto& entry) { return entry && test(*entry); });
  });
}

}  // namespace

bool Pivot::has_published() const {
  return any_entry(*this, [](const Entry& e) { return e.published.has_value(); });
}

bool Pivot::has_missing() const {
  return any_entry(*this, [](const Entry& e) { return !e.missing.empty(); });
}

bool Pivot::has_pending() const {
  return any_entry(*this, [](const Entry& e) { return e.pending > 0; });
}

bool Pivot::has_shared_texts() const {
  return any_entry(*this, [](const Entry& e) { return e.estimate.units < e.estimate.dialogues; });
}

bool Pivot::has_published_notes() const {
  return any_entry(*this, [](const Entry& e) { return !e.published_notes.empty(); });
}

bool Pivot::Entry::has_difference() const {
  return std::any_of(differences.begin(), differences.end(),
                     [](const auto& difference) { return difference.has_value(); });
}

std::string Pivot::row_label(std::size_t row, std::size_t dimension) const {
  const std::string& value = rows[row][dimension];
  return row_dimensions[dimension] == "method" ? method_labels.of(value) : value;
}

std::string Pivot::column_head(std::size_t column, std::size_t level) const {
  const std::string& name = column_dimensions[level];
  const std::string& value = columns[column][level];
  return value_heading({name}, {name == "method" ? method_labels.of(value) : value});
}

std::string Pivot::column_head(std::size_t column) const {
  std::vector<std::string> out;
  for (std::size_t d = 0; d < column_dimensions.size(); ++d) out.push_back(column_head(column, d));
  return join(out, " / ");
}

std::size_t Pivot::row_span(std::size_t row, std::size_t dimension) const {
  if (dimension + 1 == row_dimensions.size()) return 1;
  const auto end = static_cast<std::ptrdiff_t>(dimension + 1);
  const auto alike = [&](std::size_t a, std::size_t b) {
    return std::equal(rows[a].begin(), rows[a].begin() + end, rows[b].begin());
  };
  if (row > 0 && alike(row - 1, row)) return 0;
  std::size_t out = 1;
  while (row + out < rows.size() && alike(row, row + out)) ++out;
  return out;
}

std::vector<std::string> Pivot::merged_labels(std::size_t row) const {
  std::vector<std::string> out;
  for (std::size_t d = 0; d < row_dimensions.size(); ++d)
    out.push_back(row_span(row, d) == 0 ? "" : row_label(row, d));
  return out;
}

std::string Pivot::label_note() const {
  const std::string& settings = method_labels.left_out();
  return settings.empty() ? "" : "Not shown in labels: " + settings + ".";
}

std::string Pivot::basis_note(bool shows_differences) const {
  if (!shows_differences || !has_differences()) return basis;
  return basis + " Differences to " + join(baselines, ", ") + ".";
}

bool Pivot::shows_shares() const {
  return std::all_of(values.begin(), values.end(),
                     [](const TableValue* value) { return value->is_share(); });
}

bool Pivot::has_marks() const {
  return any_entry(*this, [](const Entry& e) { return e.mark != Mark::kNone; });
}

bool Pivot::has_intervals() const {
  return any_entry(*this, [](const Entry& e) { return e.estimate.interval.has_value(); });
}

bool Pivot::has_differences() const {
  return any_entry(*this, [](const Entry& e) { return e.has_difference(); });
}

bool Pivot::has_equivalence() const {
  return any_entry(*this, [](const Entry& e) {
    return std::any_of(e.differences.begin(), e.differences.end(), [](const auto& difference) {
      return difference && difference->equivalence.has_value();
    });
  });
}

bool Pivot::has_published_equivalence() const {
  return any_entry(*this, [](const Entry& e) { return e.published_equivalence.has_value(); });
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
  return turnbench::counter_text(
      *std::find_if(reported_counters().begin(), reported_counters().end(), of_name),
      found->second);
}

}  // namespace turnbench
