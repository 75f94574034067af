#include <fmt/format.h>

#include <set>

#include "common/error.h"
#include "common/text.h"
#include "reports/escape.h"
#include "reports/headings.h"
#include "reports/number_text.h"
#include "reports/render.h"
#include "reports/tables.h"

namespace turnbench {
namespace {

/// Fields of a line: arbitrary text, and numbers without quotes.
class CsvLine {
 public:
  explicit CsvLine(bool guard_formulas) : guard_formulas_(guard_formulas) {}
  CsvLine& text(const std::string& text) {
    fields_.push_back(csv_field(text, guard_formulas_));
    return *this;
  }
  CsvLine& number(const std::string& number) {
    fields_.push_back(number);
    return *this;
  }
  CsvLine& number(std::size_t count) { return number(std::to_string(count)); }
  CsvLine& number(int count) { return number(std::to_string(count)); }
  std::string str() const { return join(fields_, ",") + "\n"; }
  /// @throws Error (input) if two fields, which are names of columns, are equal.
  void require_distinct() const {
    std::set<std::string> seen;
    for (const std::string& name : fields_) {
      if (seen.insert(name).second) continue;
      throw input_error(
          "--format csv: found two columns named {}, expected labels that give different names, or "
          "--long",
          printable(name));
    }
  }

 private:
  bool guard_formulas_;
  std::vector<std::string> fields_;
};

/// Column name suffixes for the difference to a method.
std::vector<std::string> difference_suffixes(const std::string& baseline,
                                             const Comparison& comparison) {
  const std::string minus = " minus " + baseline;
  std::vector<std::string> out = {minus, minus + " low", minus + " high", minus + " p",
                                  minus + " p adjusted"};
  if (comparison.margin > 0) out.push_back(minus + " p equivalence");
  return out;
}

constexpr int kDigitsOfP = 4;
constexpr int kAllDigits = -1;  // as many as are needed to restore the exact value

std::string field_text(const std::optional<double>& x, int digits) {
  if (!x) return "";
  return digits < 0 ? fmt::format("{}", *x) : number_text(*x, digits);
}

/// Mean, low, high.
void add_estimate(CsvLine& line, const Estimate& e, int digits) {
  using Number = std::optional<double>;
  line.number(field_text(e.known ? Number(e.mean) : Number(), digits));
  const bool bounded = e.known && e.interval;
  line.number(field_text(bounded ? Number(e.interval->low) : Number(), digits));
  line.number(field_text(bounded ? Number(e.interval->high) : Number(), digits));
}

/// The fields of `difference_suffixes`.
void add_difference(CsvLine& line, const std::optional<Difference>& difference,
                    const Comparison& comparison, int digits) {
  const int digits_of_p = digits < 0 ? digits : kDigitsOfP;
  add_estimate(line, difference ? difference->estimate : Estimate(), digits);
  std::optional<double> p, adjusted, equivalence;
  if (difference) {
    p = difference->against_zero.p;
    adjusted = difference->against_zero.adjusted;
    equivalence = difference->equivalence;
  }
  line.number(field_text(p, digits_of_p)).number(field_text(adjusted, digits_of_p));
  if (comparison.margin > 0) line.number(field_text(equivalence, digits_of_p));
}

std::string csv_table(const Pivot& p, bool guard_formulas) {
  const bool pending = p.has_pending(), missing = p.has_missing(), published = p.has_published(),
             tested = p.has_published_equivalence(), remarked = p.has_published_notes(),
             compared = p.has_differences(), grouped = p.has_shared_texts();
  CsvLine header(guard_formulas);
  for (const std::string& d : p.row_dimensions) header.text(d);
  for (const auto& column : p.columns) {
    std::vector<std::string> suffixes = {"", " low", " high", " n", " turns", " failed"};
    if (grouped) suffixes.emplace_back(" units");
    if (pending) suffixes.emplace_back(" pending");
    if (missing) suffixes.emplace_back(" missing");
    if (published) suffixes.insert(suffixes.end(), {" published", " difference"});
    if (tested) suffixes.emplace_back(" published p equivalence");
    if (remarked) suffixes.emplace_back(" note");
    if (compared) {
      for (const std::string& baseline : p.baselines) {
        const std::vector<std::string> more = difference_suffixes(baseline, p.comparison);
        suffixes.insert(suffixes.end(), more.begin(), more.end());
      }
    }
    for (const std::string& suffix : suffixes)
      header.text(value_heading(p.column_dimensions, column) + suffix);
  }
  if (!p.comparability.empty()) header.text("comparability");
  header.require_distinct();
  std::string out = header.str();
  for (std::size_t r = 0; r < p.rows.size(); ++r) {
    CsvLine line(guard_formulas);
    for (const std::string& value : p.rows[r]) line.text(value);
    for (const auto& entry : p.entries[r]) {
      const Pivot::Entry e = entry.value_or(Pivot::Entry());
      const Estimate& x = e.estimate;
      const int digits = entry ? e.unit->digits + 1 : 0;
      add_estimate(line, x, digits);
      line.number(x.dialogues).number(x.turns).number(x.failed);
      if (grouped) line.number(x.units);
      if (pending) line.number(e.pending);
      if (missing) line.text(join(e.missing, "; "));
      if (published) {
        line.number(e.published ? published_text(*e.published, digits) : "");
        line.number(e.published && x.known ? published_text(x.mean - *e.published, digits) : "");
      }
      if (tested) line.number(field_text(e.published_equivalence, kDigitsOfP));
      if (remarked) line.text(join(e.published_notes, "; "));
      for (std::size_t b = 0; compared && b < p.baselines.size(); ++b)
        add_difference(line, entry ? e.differences[b] : std::nullopt, p.comparison, digits);
    }
    if (!p.comparability.empty()) line.text(p.row_comparability[r]);
    out += line.str();
  }
  return out;
}

}  // namespace

std::string render_csv(const Results& results, const RenderOptions& options) {
  const std::vector<TableSpec>& tables = results.tables();
  if (tables.size() > 1) {
    throw input_error(
        "--format csv: found {} tables ({}), expected --table with the number or title of one of "
        "them, or --long for all cells",
        tables.size(), list_tables(tables));
  }
  return csv_table(make_pivot(results, tables.front(), options.comparison), options.guard_formulas);
}

std::string render_csv_long(const Results& results, const RenderOptions& options) {
  const Comparison& comparison = options.comparison;
  CsvLine header(options.guard_formulas);
  for (const char* name :
       {"model", "dataset", "position", "method", "history", "answers", "metric", "mean", "low",
        "high", "n", "failed", "published", "turns", "pending", "units"}) {
    header.text(name);
  }
  for (const BaselineRule& baseline : baselines(results)) {
    for (const std::string& suffix : difference_suffixes(baseline.name(), comparison))
      header.text(suffix.substr(1));
  }
  std::vector<const Cell*> cells;
  for (const Cell& cell : results.cells()) cells.push_back(&cell);
  const std::vector<ComparabilityRemark> remarks = comparability(cells, results.usages());
  if (!remarks.empty()) header.text("comparability");
  std::string out = header.str();
  for (const CellLine& line : cell_lines(results, comparison)) {
    const Cell& cell = line.cell;
    const Estimate& e = line.estimate;
    CsvLine fields(options.guard_formulas);
    for (const std::string* text : {&cell.model, &cell.dataset, &cell.position, &cell.method,
                                    &cell.history, &cell.answers, &cell.metric}) {
      fields.text(*text);
    }
    add_estimate(fields, e, kAllDigits);
    fields.number(e.dialogues).number(e.failed);
    fields.number(line.published ? fmt::format("{}", line.published->value) : "");
    fields.number(e.turns).number(line.pending).number(e.units);
    for (const std::optional<Difference>& difference : line.differences)
      add_difference(fields, difference, comparison, kAllDigits);
    if (!remarks.empty()) fields.text(comparability_of(remarks, {&cell}));
    out += fields.str();
  }
  return out;
}

}  // namespace turnbench
