#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "common/text.h"
#include "reports/escape.h"
#include "reports/html/charts.h"
#include "reports/html/page.h"
#include "reports/html/table_html.h"
#include "reports/html/text_html.h"
#include "reports/notes.h"

namespace turnbench {
namespace {

/// Writes one section, and its list of headings.
class SectionWriter {
 public:
  SectionWriter(const std::vector<MetricResults>& metrics, const Comparison& comparison, bool alone,
                ViewBudget& budget)
      : metrics_(metrics),
        results_(metrics.front().results),
        comparison_(comparison),
        level_(alone ? 1 : 2),
        budget_(budget) {
    section_.id = "x-" + results_.manifest().name;
    section_.title = results_.manifest().title;
  }

  PageSection write();

 private:
  void add(const std::string& html) { section_.body += html; }
  std::string add_heading(const std::string& name, const std::string& title);
  void add_tables();
  void add_chart(const std::string& name, const std::string& title, const ChartWriter& write);
  void add_protocol();
  void add_failures();
  std::string index_row() const;

  const std::vector<MetricResults>& metrics_;
  const Results& results_;  // the first of these
  const Comparison& comparison_;
  const int level_;  // of the heading
  ViewBudget& budget_;
  PageSection section_;
};

/// Adds a heading below that of the section; returns its id.
std::string SectionWriter::add_heading(const std::string& name, const std::string& title) {
  const std::string id = section_.id + "-" + name;
  add(fmt::format("<h{0} class=\"heading\" id=\"{1}\">{2}</h{0}>\n", level_ + 1, id,
                  escape_markup(title)));
  section_.contents.push_back({id, title});
  return id;
}

void SectionWriter::add_tables() {
  std::vector<Pivot> pivots;
  for (const TableSpec& spec : results_.tables()) {
    const Pivot& p = pivots.emplace_back(make_pivot(results_, spec, comparison_));
    add("<section class=\"result\">\n");
    const std::string heading = add_heading("table-" + std::to_string(pivots.size()),
                                            p.title.empty() ? "Results" : p.title);
    const std::size_t table = pivots.size() - 1;
    add(table_views_html(metrics_, table, p, heading, budget_) + "</section>\n");
    const auto write = [&](const Results& r, ViewBudget& budget) {
      return table_charts_html(r, table, budget);
    };
    const bool has_metrics = spec.values == std::vector<std::string>{"score"};
    const std::span shown(metrics_.data(), has_metrics ? metrics_.size() : 1);
    const std::string charts = chart_views_html(shown, write, budget_);
    if (!charts.empty()) add("<section class=\"result of-table\">\n" + charts + "</section>\n");
  }
  const bool counters =
      std::any_of(pivots.begin(), pivots.end(), [](const Pivot& p) { return p.has_counters(); });
  add(note_html(caption(pivots, "on the second line", counters, {}, /*scales=*/false) +
                " Datasets weigh the same."));
}

/// Adds charts below a heading; nothing if there is nothing to draw.
void SectionWriter::add_chart(const std::string& name, const std::string& title,
                              const ChartWriter& write) {
  const std::string charts = chart_views_html(metrics_, write, budget_);
  if (charts.empty()) return;
  add("<section class=\"result\">\n");
  add_heading(name, title);
  add(charts + "</section>\n");
}

/// The origin of the numbers: protocol cards, the manifest, machines.
void SectionWriter::add_protocol() {
  add_heading("protocol", "Protocol");
  std::map<std::string, std::vector<Cell>> cells;  // cells by card
  for (const Cell& c : results_.cells()) cells[c.protocol].push_back(c);
  std::set<std::string> cards;
  for (const Cell& c : results_.cells()) {
    if (!cards.insert(c.protocol).second) continue;
    add(details_html(c.model + ", " + c.dataset, c.protocol_text));
    if (const std::string cut = describe(results_.truncation(cells[c.protocol])); !cut.empty())
      add(note_html(cut + "."));
    const std::string limited = describe_limited(cells[c.protocol], results_.usages());
    if (!limited.empty()) add(note_html(limited + "."));
  }
  add(details_html("manifest", results_.manifest().text));
  for (const std::string& e : results_.environments()) add(details_html("environment", e));
}

void SectionWriter::add_failures() {
  const std::vector<Store::Failure>& failures = results_.failures();
  if (failures.empty()) return;
  const std::string title = fmt::format("Failed records ({})", failures.size());
  add("<section class=\"result\">\n");
  const std::string heading = add_heading("failures", title);
  std::map<std::string, const Cell*> cells;
  for (const Cell& cell : results_.cells()) cells[cell.key] = &cell;
  add(fmt::format(
      "<div class=\"view\"><div class=\"scroll\" "
      "role=\"region\" tabindex=\"0\" "
      "aria-labelledby=\"{}\"><table class=\"text failures\"><caption>{}</caption><thead><tr>",
      heading, title));
  for (const char* name : {"method", "model", "dataset", "position", "history", "answers",
                           "dialogue", "turn", "error"})
    add(fmt::format("<th scope=\"col\" class=\"label\">{}</th>", name));
  add("</tr></thead><tbody>\n");
  for (const Store::Failure& f : failures) {
    const Cell& c = *cells.at(f.cell);
    add("<tr><th scope=\"row\" class=\"label\">" + label_html(c.method) + "</th>");
    for (const std::string& text : {c.model, c.dataset, c.position, c.history, c.answers})
      add("<td class=\"label\">" + escape_markup(text) + "</td>");
    add(
        fmt::format("<td class=\"label\" data-cells=\"{}\" data-turn=\"{}\" data-dialogue=\"{}\">"
                    "<span class=\"none\">{}</span></td>",
                    &c - results_.cells().data(), f.turn, escape_markup(f.dialogue),
                    escape_markup(f.dialogue)));
    for (const std::string& text : {std::to_string(f.turn + 1), f.error})
      add("<td class=\"label\">" + escape_markup(text) + "</td>");
    add("</tr>\n");
  }
  add("</tbody></table></div></div></section>\n");
}

/// Name, title and size of the experiment, and what limits its numbers.
std::string SectionWriter::index_row() const {
  const Manifest& m = results_.manifest();
  const auto values = [&](const char* dimension) {
    constexpr std::size_t kShown = 3;
    const std::vector<std::string> all = results_.values_of(dimension);
    return fmt::format(
        "<td class=\"label\">{}</td>",
        escape_markup(all.size() > kShown ? std::to_string(all.size()) : join(all, ", ")));
  };
  const auto number = [](std::size_t n) {
    return fmt::format("<td><data value=\"{0}\">{0}</data></td>", n);
  };
  std::size_t run = 0, total = 0;
  for (const Cell& cell : results_.cells()) {
    run += results_.progress(cell).run;
    total += results_.progress(cell).total;
  }
  std::vector<std::string> remarks;
  if (!m.smoke.empty()) remarks.emplace_back("smoke run");
  if (run < total) remarks.emplace_back("partial");
  if (!results_.stale().empty()) remarks.emplace_back("stale");
  return fmt::format(
             "<tr><th scope=\"row\" class=\"label\"><a href=\"#{}\">{}</a></th>"
             "<td class=\"label\">{}</td>{}{}{}",
             section_.id, escape_markup(m.name), escape_markup(m.title), values("model"),
             values("dataset"), number(results_.values_of("method").size())) +
         fmt::format("<td><data value=\"{0}\">{0}</data> of {1}</td>", run, total) +
         number(results_.failures().size()) + "<td class=\"label\">" + join(remarks, ", ") +
         "</td></tr>\n";
}

PageSection SectionWriter::write() {
  const Manifest& m = results_.manifest();
  add(
      fmt::format("<section class=\"experiment\" id=\"{0}\" aria-labelledby=\"{0}-title\">\n"
                  "<h{1} id=\"{0}-title\">{2}</h{1}>\n",
                  section_.id, level_, escape_markup(m.title)));
  if (level_ > 1) add(note_html("Experiment " + m.name));
  add(note_html(m.description));
  if (!m.smoke.empty()) add("<p class=\"warning\">" + escape_markup(m.smoke) + "</p>\n");
  section_.head = std::exchange(section_.body, "");
  add_tables();
  for (const std::string& note : notes(results_)) add(note_html(note));
  const bool has_positions = results_.values_of("position").size() > 1;
  add_chart("positions", has_positions ? "By position of the question" : "All methods",
            position_charts_html);
  add_chart("costs", "Quality and cost", cost_charts_html);
  add_chart("distribution", "Scores of single turns",
            [](const Results& r, ViewBudget&) { return distribution_chart_html(r); });
  add_protocol();
  add_failures();
  section_.index_row = index_row();
  return section_;
}

}  // namespace

PageSection page_section(const std::vector<MetricResults>& metrics, const Comparison& comparison,
                         bool alone, ViewBudget& budget) {
  return SectionWriter(metrics, comparison, alone, budget).write();
}

}  // namespace turnbench
