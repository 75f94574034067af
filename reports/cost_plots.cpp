#include "reports/cost_plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "common/mean.h"
#include "common/text.h"
#include "reports/notes.h"
#include "reports/number_text.h"
#include "reports/pareto_front.h"
#include "reports/pivot.h"

namespace turnbench {
namespace {

struct Cost {
  std::string name, label;
  double scale = 1;  ///< printed value / stored value
};

std::vector<Cost> costs() {
  std::vector<Cost> out = {{"attended_tokens", "tokens that a decode step reads", 1}};
  for (const auto* names : {&cost_counters(), &isolated_costs()}) {
    for (const std::string& name : *names) {
      if (const TableValue* value = find_table_value(name))
        out.push_back({name, fmt::format("{} ({})", value->meaning, value->unit), value->scale});
    }
  }
  return out;
}

/// A method's mean score, and the cells of which it is the mean.
struct Quality {
  std::string model, name, label;
  const Pivot::Entry* entry = nullptr;
};

std::vector<Quality> qualities(const Results& results, const Pivot& pivot) {
  std::vector<Quality> out;
  for (std::size_t r = 0; r < pivot.rows.size(); ++r) {
    const auto& entry = pivot.entries[r].front();
    if (!entry || !entry->estimate.known) continue;
    const Cell& cell = results.cells()[entry->cells.front()];
    if (is_probe(cell)) continue;
    Quality& quality = out.emplace_back();
    quality.model = cell.model;
    quality.name = results.dimension(cell, -1, std::string(kVariantDimension));
    quality.label = pivot.rows[r].front();
    quality.entry = &*entry;
    for (std::size_t i = 1; i < pivot.rows[r].size(); ++i) {
      if (pivot.row_dimensions[i] == "model") continue;
      quality.name += ", " + pivot.rows[r][i];
      quality.label += ", " + pivot.rows[r][i];
    }
  }
  return out;
}

/// The mean over the cells of an entry; nullopt if one has no value.
std::optional<double> cost_of(const Results& results, const Pivot::Entry& entry, const Cost& cost) {
  Mean mean;
  for (const std::size_t cell : entry.cells) {
    const auto value = results.counter(results.cells()[cell].key, cost.name);
    if (!value) return std::nullopt;
    mean.add(*value * cost.scale);
  }
  return mean.value();
}

/// The points on the Pareto front, in ascending order of cost.
std::vector<Plot::Point> front_of(const std::vector<Plot::Point>& points, bool lower_is_better) {
  std::vector<QualityAndCost> methods;
  for (const Plot::Point& point : points)
    methods.push_back({lower_is_better ? -point.mean : point.mean, point.x});
  const std::vector<bool> is_on_front = pareto_front(methods);
  std::vector<Plot::Point> out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (is_on_front[i]) out.push_back(points[i]);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Plot::Point& a, const Plot::Point& b) { return a.x < b.x; });
  return out;
}

/// One plot, without axes and series if fewer than two costs differ.
Plot plot_of(const Results& results, const std::vector<Quality>& methods, const Cost& cost,
             const TableValue& unit) {
  Plot out;
  std::map<std::string, std::size_t> places;
  std::vector<Plot::Point> points;
  std::vector<double> xs;
  for (const Quality& method : methods) {
    const std::optional<double> x = cost_of(results, *method.entry, cost);
    if (!x) continue;
    const Estimate& e = method.entry->estimate;
    const Plot::Point point =
        point_at(*x, e, method.label, fmt::format("{}; {:.4g}", estimate_text(e, unit.digits), *x));
    const auto [found, is_new] = places.try_emplace(method.name, out.series.size());
    if (is_new) out.series.push_back({method.name});
    out.series[found->second].points.push_back(point);
    points.push_back(point);
    xs.push_back(*x);
  }
  if (std::set<double>(xs.begin(), xs.end()).size() < 2) return {};
  sort_by_x(out.series);
  out.x = fitting_axis(cost.label, xs);
  out.y = mean_axis(unit, out.series);
  out.front = front_of(points, unit.lower_is_better);
  std::vector<std::string> names;
  for (const Plot::Point& point : out.front) names.push_back(point.name);
  out.notes = {"Dotted: the Pareto front of the means: " + join(names, ", ") + "."};
  return out;
}

std::vector<double> costs_in(const Plot& plot) {
  std::vector<double> out;
  for (const Plot::Series& series : plot.series) {
    for (const Plot::Point& point : series.points) out.push_back(point.x);
  }
  return out;
}

}  // namespace

const std::vector<std::string>& cost_counters() {
  static const std::vector<std::string> names = {"attended_tokens", "kv_bytes", "resident_kv_bytes",
                                                 "step_bytes"};
  return names;
}

const std::vector<std::string>& isolated_costs() {
  static const std::vector<std::string> names = {"ttft", "tpot", "decode_peak_bytes"};
  return names;
}

std::vector<Plot> cost_plots(const Results& results) {
  const Pivot pivot = make_pivot(results, {.rows = results.method_dimensions()});
  if (pivot.columns.empty()) return {};
  std::map<std::string, std::vector<Quality>> by_model;
  for (Quality& quality : qualities(results, pivot))
    by_model[quality.model].push_back(std::move(quality));
  std::vector<Plot> out;
  for (const std::string& model : results.values_of("model")) {
    std::set<std::vector<double>> shown;  // costs of all methods, which another quantity may equal
    for (const Cost& cost : costs()) {
      Plot plot = plot_of(results, by_model[model], cost, *pivot.values.front());
      if (plot.series.empty() || !shown.insert(costs_in(plot)).second) continue;
      plot.title = by_model.size() > 1 ? model + ": " + cost.label : cost.label;
      out.push_back(std::move(plot));
    }
  }
  return out;
}

}  // namespace turnbench
