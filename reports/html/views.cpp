#include "reports/html/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/text.h"
#include "harness/run/fidelity.h"
#include "harness/store/cell.h"
#include "reports/escape.h"
#include "reports/html/table_html.h"
#include "reports/html/text_html.h"
#include "reports/table_layout.h"

namespace turnbench {
namespace {

std::string view_html(bool is_first, const std::string& metric, const std::string& baseline,
                      const std::string& content) {
  const char* tag = is_first ? "div class=\"view\"" : "template";
  return fmt::format("<{} data-metric=\"{}\" data-baseline=\"{}\">\n{}</{}>\n", tag,
                     escape_markup(metric), escape_markup(baseline), content,
                     is_first ? "div" : "template");
}

/// The name of a view's baselines in its choice.
std::string name_of(const std::vector<std::string>& baselines) {
  return join(baselines, ", ");
}

/// The metric of the cells' own scores.
std::string own_metric(const Results& results) {
  const std::vector<std::string> names = results.values_of("metric");
  return names.size() == 1 ? names.front() : "each dataset's own";
}

/// The number of differences of a table to one baseline, counted once for each dialogue.
std::size_t cost_of(const Pivot& p) {
  std::size_t out = 0;
  for (const auto& row : p.entries) {
    for (const auto& entry : row) {
      if (entry && entry->estimate.known)
        out += static_cast<std::size_t>(entry->estimate.dialogues);
    }
  }
  return out;
}

/// The methods to which the entries of a table can be compared: all, if method is one of its
/// dimensions.
std::vector<std::string> possible_baselines(const Results& results, const TableSpec& spec) {
  std::vector<std::string> out;
  if (std::none_of(spec.rows.begin(), spec.rows.end(), is_of_method) &&
      std::none_of(spec.columns.begin(), spec.columns.end(), is_of_method))
    return out;
  for (const Cell& cell : results.cells()) {
    if (!is_probe(cell) && std::find(out.begin(), out.end(), cell.method) == out.end())
      out.push_back(cell.method);
  }
  return out;
}

/// The views of one table.
class TableViews {
 public:
  TableViews(const Pivot& shown, const std::string& heading, ViewBudget& budget)
      : shown_(shown), heading_(heading), budget_(budget) {}

  void add(const MetricResults& metric, std::size_t table, bool is_first);
  std::string html() const;

 private:
  std::string content(const Pivot& p) const {
    return table_html(p, heading_) + table_notes_html(p);
  }

  const Pivot& shown_;
  const std::string& heading_;
  ViewBudget& budget_;
  std::string first_, others_;
  std::size_t left_out_ = 0;
};

/// Adds the views of one metric, without those that exceed the budget.
void TableViews::add(const MetricResults& metric, std::size_t table, bool is_first) {
  const Results& results = metric.results;
  const TableSpec& own = results.tables()[table];
  TableSpec spec = own;
  const auto view = [&](const std::vector<BaselineRule>& rules) {
    spec.difference_to = rules;
    return make_pivot(results, spec, shown_.comparison);
  };
  const auto add_view = [&](const Pivot& p) {
    const std::string html = view_html(false, metric.name, name_of(p.baselines), content(p));
    if (html.size() > budget_.bytes) {
      ++left_out_;
      return;
    }
    budget_.bytes -= html.size();
    others_ += html;
  };
  const Pivot plain = view({});
  const std::size_t cost = cost_of(plain);
  if (is_first) {
    first_ = view_html(true, metric.name, name_of(shown_.baselines), content(shown_));
  } else if (cost == 0) {
    return;  // no entry has a value
  }
  if (!is_first || !shown_.baselines.empty()) add_view(plain);
  if (!is_first && !own.difference_to.empty()) add_view(view(own.difference_to));
  std::vector<std::string> baselines = possible_baselines(results, own);
  if (own.difference_to.size() == 1) std::erase(baselines, own.difference_to.front().name());
  if (cost * baselines.size() > budget_.differences) {
    left_out_ += baselines.size();
    return;
  }
  budget_.differences -= cost * baselines.size();
  for (const std::string& baseline : baselines) {
    if (const Pivot p = view({{baseline}}); p.has_differences()) add_view(p);
  }
}

std::string left_out_html(std::size_t views) {
  if (views == 0) return "";
  return note_html(fmt::format(
      "{} other views are left out, because the page would be too large or take too long.", views));
}

std::string TableViews::html() const {
  return first_ + others_ + left_out_html(left_out_);
}

/// Whether an experiment has too many results for further metrics, each of which is read and
/// averaged like the first.
bool is_large(const Results& results) {
  constexpr std::size_t kMostDialogues = 50'000;  // in all cells
  std::size_t run = 0;
  for (const Cell& cell : results.cells()) run += results.progress(cell).run;
  return run > kMostDialogues;
}

}  // namespace

MetricResults as_metric(Results results) {
  std::string name = name_of(results.score_choice());
  if (name.empty()) name = own_metric(results);
  return {name, std::move(results)};
}

std::vector<MetricResults> results_by_metric(const Store& store, const std::string& experiment,
                                             const ScoreChoice& choice) {
  std::vector<MetricResults> out;
  out.push_back(as_metric(Results(store, experiment, choice)));
  const std::string own_name = out.front().name;
  if (!choice.metric.empty() || is_large(out.front().results)) return out;
  for (const std::string& metric : store.metrics(experiment)) {
    for (const auto& [postprocess, is_own] : store.postprocesses(experiment, metric)) {
      if (is_own && metric == own_name) continue;
      const bool implied = is_own || is_fidelity_metric(metric);
      out.push_back(as_metric(Results(store, experiment, {metric, implied ? "" : postprocess})));
    }
  }
  return out;
}

std::string table_views_html(const std::vector<MetricResults>& metrics, std::size_t table,
                             const Pivot& shown, const std::string& heading, ViewBudget& budget) {
  TableViews views(shown, heading, budget);
  for (const MetricResults& metric : metrics) {
    const bool is_first = &metric == &metrics.front();
    if (is_first || metric.results.tables()[table].values == std::vector<std::string>{"score"})
      views.add(metric, table, is_first);
  }
  return views.html();
}

std::string chart_views_html(std::span<const MetricResults> metrics, const ChartWriter& write,
                             ViewBudget& budget) {
  std::string out;
  std::size_t left_out = 0;
  for (const MetricResults& metric : metrics) {
    const std::string charts = write(metric.results, budget);
    const bool is_first = &metric == &metrics.front();
    if (charts.empty() && is_first) return "";
    if (charts.empty()) continue;
    const std::string view = view_html(is_first, metric.name, "", charts);
    if (!is_first && view.size() > budget.bytes) {
      ++left_out;
      continue;
    }
    if (!is_first) budget.bytes -= view.size();
    out += view;
  }
  return out + left_out_html(left_out);
}

}  // namespace turnbench
