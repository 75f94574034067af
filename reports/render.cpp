#include "reports/render.h"

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/text.h"
#include "reports/notes.h"
#include "reports/position_chart.h"
#include "reports/report_file.h"

namespace turnbench {

std::vector<CellLine> cell_lines(const Results& results) {
  std::vector<CellLine> out;
  for (const Cell& cell : results.cells()) {
    const Stratum& s = results.stratum(cell.key, -1);
    out.push_back(
        {cell, estimate({&s}), results.progress(cell).pending(), results.published(cell)});
  }
  return out;
}

std::string render_json(const Results& results) {
  OrderedJson out;
  out["experiment"] = results.manifest().name;
  if (!results.manifest().smoke.empty()) out["smoke"] = results.manifest().smoke;
  out["cells"] = OrderedJson::array();
  for (const CellLine& line : cell_lines(results)) {
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
    const auto number = [&](double x) { return e.known ? OrderedJson(x) : OrderedJson(nullptr); };
    cell["mean"] = number(e.mean);
    cell["low"] = number(e.low);
    cell["high"] = number(e.high);
    cell["n"] = e.dialogues;
    cell["failed"] = e.failed;
    const int without_value = results.stratum(line.cell.key, -1).without_value;
    if (without_value > 0) cell["without_value"] = without_value;
    cell["published"] = line.published ? OrderedJson(line.published->value) : OrderedJson(nullptr);
    if (const Truncation t = results.truncation(line.cell.key); t.cut > 0) {
      cell["truncation"] = {
          {"prompts", t.prompts}, {"cut", t.cut}, {"longest", t.longest}, {"cut_to", t.cut_to}};
    }
    if (const StaleCell* stale = results.stale(line.cell.key))
      cell["stale"] = {{"dialogues", stale->dialogues}, {"changed", stale->changed}};
    cell["turns"] = e.turns;
    cell["pending"] = line.pending;
    if (line.published && !line.published->notes.empty())
      cell["note"] = join(line.published->notes, "; ");
    out["cells"].push_back(std::move(cell));
  }
  if (const std::vector<std::string> all = notes(results); !all.empty()) out["notes"] = all;
  return out.dump(1) + "\n";
}

std::string render_report(const Results& results, const RenderOptions& options) {
  if (options.format == "md") return render_markdown(results);
  if (options.format == "csv")
    return options.long_csv ? render_csv_long(results) : render_csv(results);
  if (options.format == "json") return render_json(results);
  if (options.format == "html") return render_html(results);
  if (options.format == "tex") return render_latex(results);
  if (options.format == "svg")
    return std::string(kMarkupMark) + render_svg(position_charts(results).front());
  throw input_error("--format: found \"{}\", expected md, csv, tex, html, json or svg",
                    printable(options.format));
}

}  // namespace turnbench
