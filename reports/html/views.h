#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "reports/pivot.h"
#include "reports/results.h"

namespace turnbench {

/// An experiment with one kind of scores that a page shows.
struct MetricResults {
  std::string name;
  Results results;
};

/// The results of an experiment by every metric of which the store has scores.  The first are those
/// that `choice` selects; if it names a metric, or if more than 50,000 dialogues have run in the
/// cells of the experiment, there are no others.
std::vector<MetricResults> results_by_metric(const Store& store, const std::string& experiment,
                                             const ScoreChoice& choice);

/// The same of one metric.
MetricResults as_metric(Results results);

/// What the additional views of a page may still cost.
struct ViewBudget {
  std::size_t differences = 1'000'000;  ///< to test, counted once for each of their dialogues
  std::size_t bytes = 3'000'000;
  std::size_t folded_charts = 500'000;  ///< bytes of charts in blocks that can be opened
};

/// A table in all its views: one for each metric and each baseline.  The first is `shown`, the
/// table of the first results; the others follow as templates, and reduce the budget.  Views that
/// exceed it are left out, which a note states.
/// `heading`: id of the heading above.
std::string table_views_html(const std::vector<MetricResults>& metrics, std::size_t table,
                             const Pivot& shown, const std::string& heading, ViewBudget& budget);

/// Draws the charts of an experiment; empty if there is nothing to draw.
using ChartWriter = std::function<std::string(const Results& results, ViewBudget& budget)>;

/// Charts in all their views: one for each metric.  Empty if the first metric has none.
std::string chart_views_html(std::span<const MetricResults> metrics, const ChartWriter& write,
                             ViewBudget& budget);

}  // namespace turnbench
