#include "reports/render.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/text.h"
#include "reports/baseline_cells.h"
#include "reports/estimate_json.h"
#include "reports/families.h"
#include "reports/notes.h"
#include "reports/report_file.h"

namespace turnbench {

namespace {

OrderedJson optional_number(const std::optional<double>& x) {
  return x ? OrderedJson(*x) : OrderedJson(nullptr);
}

OrderedJson difference_json(const Difference& difference, const std::string& baseline) {
  OrderedJson out = {{"to", baseline}};
  out.update(difference_json(difference));
  return out;
}

OrderedJson entry_json(const Pivot& pivot, std::size_t row, std::size_t column) {
  const Pivot::Entry& e = *pivot.entries[row][column];
  OrderedJson out = {{"row", pivot.rows[row]}, {"column", pivot.columns[column]}};
  put_estimate(out, e.estimate);
  out["n"] = e.estimate.dialogues;
  out["units"] = e.estimate.units;
  out["turns"] = e.estimate.turns;
  out["failed"] = e.estimate.failed;
  out["pending"] = e.pending;
  out["published"] = optional_number(e.published);
  if (e.published_equivalence) out["published_p_equivalence"] = *e.published_equivalence;
  if (e.mark != Mark::kNone) out["mark"] = e.mark == Mark::kBest ? "best" : "second";
  if (!e.missing.empty()) out["missing"] = e.missing;
  for (std::size_t b = 0; b < pivot.baselines.size(); ++b) {
    if (!e.differences[b]) continue;
    const OrderedJson difference = difference_json(*e.differences[b], pivot.baselines[b]);
    if (pivot.baselines.size() == 1)
      out["difference"] = difference;
    else
      out["differences"].push_back(difference);
  }
  return out;
}

OrderedJson remark_json(const ComparabilityRemark& remark) {
  OrderedJson out = {{"subject", remark.subject}, {"values", OrderedJson::array()}};
  for (const ComparabilityRemark::Group& group : remark.groups)
    out["values"].push_back({{"value", group.value}, {"methods", group.methods}});
  if (!remark.consequence.empty()) out["consequence"] = remark.consequence;
  return out;
}

OrderedJson table_json(const Pivot& pivot) {
  OrderedJson out = {{"title", pivot.title}};
  if (pivot.values.size() == 1) {
    out["value"] = std::string(pivot.values.front()->name);
    out["unit"] = std::string(pivot.values.front()->unit);
  } else {
    for (std::size_t i = 0; i < pivot.values.size(); ++i) {
      out["values"].push_back(
          {{"value", pivot.value_names[i]}, {"unit", std::string(pivot.values[i]->unit)}});
    }
  }
  out["rows"] = pivot.row_dimensions;
  out["columns"] = pivot.column_dimensions;
  if (!pivot.baselines.empty()) {
    out["difference_to"] = pivot.baselines.size() == 1 ? OrderedJson(pivot.baselines.front())
                                                       : OrderedJson(pivot.baselines);
    out["adjusted_by"] = pivot.comparison.adjustment == Adjustment::kHolm ? "holm" : "maxt";
    if (pivot.comparison.margin > 0) out["margin"] = pivot.comparison.margin;
  }
  out["entries"] = OrderedJson::array();
  for (std::size_t r = 0; r < pivot.rows.size(); ++r) {
    for (std::size_t c = 0; c < pivot.columns.size(); ++c) {
      if (pivot.entries[r][c]) out["entries"].push_back(entry_json(pivot, r, c));
    }
  }
  if (!pivot.averages.empty()) {
    for (const auto& [name, values] : pivot.averages) out["means_over"][name] = values;
  }
  if (!pivot.notes.empty()) out["notes"] = pivot.notes;
  for (const ComparabilityRemark& remark : pivot.comparability)
    out["comparability"].push_back(remark_json(remark));
  return out;
}

}  // namespace

std::vector<BaselineRule> baselines(const Results& results) {
  std::vector<BaselineRule> out;
  for (const TableSpec& table : results.tables()) {
    for (const BaselineRule& rule : table.difference_to) {
      if (std::find(out.begin(), out.end(), rule) == out.end()) out.push_back(rule);
    }
  }
  return out;
}

std::vector<CellLine> cell_lines(const Results& results, const Comparison& comparison) {
  std::vector<CellLine> out;
  for (const Cell& cell : results.cells()) {
    const Stratum& s = results.stratum(cell.key, -1);
    out.push_back(
        {cell, estimate({&s}), {}, results.progress(cell).pending(), results.published(cell)});
  }
  for (const BaselineRule& baseline : baselines(results)) {
    const BaselineCells cells(results, baseline);
    std::vector<TestedDifference> tested;
    std::vector<std::optional<Difference>*> members;
    for (CellLine& line : out) {
      std::optional<Difference>& difference = line.differences.emplace_back();
      const Cell* beside = cells.of(line.cell);
      if (cells.has(line.cell) || beside == nullptr) continue;
      tested.push_back({{{&results.stratum(line.cell.key, -1), &results.stratum(beside->key, -1)}},
                        is_imported(line.cell)});
      members.push_back(&difference);
    }
    const std::vector<std::optional<Difference>> differences = compare_families(tested, comparison);
    for (std::size_t i = 0; i < members.size(); ++i) *members[i] = differences[i];
  }
  return out;
}

std::string render_json(const Results& results, const Comparison& comparison) {
  OrderedJson out;
  out["schema"] = kReportSchema;
  out["experiment"] = results.manifest().name;
  if (!results.manifest().smoke.empty()) out["smoke"] = results.manifest().smoke;
  out["cells"] = OrderedJson::array();
  std::vector<std::string> to;
  for (const BaselineRule& baseline : baselines(results)) to.push_back(baseline.name());
  for (const CellLine& line : cell_lines(results, comparison)) {
    const Estimate& e = line.estimate;
    OrderedJson cell;
    cell["model"] = line.cell.model;
    cell["dataset"] = line.cell.dataset;
    cell["position"] = line.cell.position;
    cell["method"] = line.cell.method;
    cell["settings"] = {{"history", line.cell.history},
                        {"answers", line.cell.answers},
                        {"method", line.cell.method_canonical},
                        {"postprocess", line.cell.postprocess}};
    cell["metric"] = line.cell.metric;
    put_estimate(cell, e);
    cell["n"] = e.dialogues;
    cell["units"] = e.units;
    cell["failed"] = e.failed;
    const int without_value = results.stratum(line.cell.key, -1).without_value;
    if (without_value > 0) cell["without_value"] = without_value;
    const int without_reference = results.stratum(line.cell.key, -1).without_reference;
    if (without_reference > 0) cell["without_reference"] = without_reference;
    cell["published"] = line.published ? OrderedJson(line.published->value) : OrderedJson(nullptr);
    if (const Truncation t = results.truncation(line.cell.key); t.cut > 0) {
      cell["truncation"] = {
          {"prompts", t.prompts}, {"cut", t.cut}, {"longest", t.longest}, {"cut_to", t.cut_to}};
    }
    const auto usage = results.usages().find(line.cell.key);
    if (usage != results.usages().end() && has_length_limit(line.cell)) {
      cell["length_limit"] = {{"answers", usage->second.answers},
                              {"reached", usage->second.limited}};
    }
    if (const StaleCell* stale = results.stale(line.cell.key))
      cell["stale"] = {{"dialogues", stale->dialogues}, {"changed", stale->changed}};
    cell["turns"] = e.turns;
    cell["pending"] = line.pending;
    if (line.published && !line.published->notes.empty())
      cell["note"] = join(line.published->notes, "; ");
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (line.differences[i])
        cell["differences"].push_back(difference_json(*line.differences[i], to[i]));
    }
    out["cells"].push_back(std::move(cell));
  }
  out["tables"] = OrderedJson::array();
  for (const TableSpec& spec : results.tables())
    out["tables"].push_back(table_json(make_pivot(results, spec, comparison)));
  if (const std::vector<std::string> all = notes(results); !all.empty()) out["notes"] = all;
  return json_document(out);
}

std::string render_report(const Results& results, const RenderOptions& options) {
  const Comparison& comparison = options.comparison;
  if (options.format == "md") return render_markdown(results, comparison, options.columns);
  if (options.format == "csv") {
    return options.long_csv ? render_csv_long(results, options) : render_csv(results, options);
  }
  if (options.format == "json") return render_json(results, comparison);
  if (options.format == "html") return render_html(results, comparison);
  if (options.format == "tex") return render_latex(results, comparison, options.columns);
  if (options.format == "svg")
    return std::string(kMarkupMark) + render_chart(results, options.chart);
  throw input_error("--format: found \"{}\", expected md, csv, tex, html, json or svg",
                    printable(options.format));
}

}  // namespace turnbench
