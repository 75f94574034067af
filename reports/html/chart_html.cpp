#include "reports/html/chart_html.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/escape.h"
#include "reports/html/text_html.h"

namespace turnbench {
namespace {

// The style sheet has this number of colours and draws lanes of this height.
constexpr std::size_t kSeriesColors = 6, kMarkShapes = 3;
constexpr double kLaneHeight = 13;

/// The mark of a series at a horizontal position, for example "12.5%".
std::string mark_html(std::size_t series, const std::string& x, double y) {
  const char* shape = series % kMarkShapes == 0   ? "<circle r=\"4\"/>"
                      : series % kMarkShapes == 1 ? "<path d=\"M-3.7-3.7h7.4v7.4h-7.4z\"/>"
                                                  : "<path d=\"M0-4.9l4.9 4.9-4.9 4.9-4.9-4.9z\"/>";
  return fmt::format("<svg class=\"mark\" x=\"{}\" y=\"{:.1f}\">{}</svg>", x, y, shape);
}

std::string legend_html(const DotChart& chart) {
  std::string out = "<ul class=\"legend\">";
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    out += fmt::format(
        "<li><svg class=\"s{}\" width=\"12\" height=\"12\" aria-hidden=\"true\">{}</svg>{}</li>",
        s % kSeriesColors, mark_html(s, "6", 6), escape_markup(chart.series[s]));
  }
  return out + "</ul>\n";
}

/// One row: its label, and the dots with their intervals.
std::string row_html(const DotChart& chart, const DotChart::Row& row) {
  const auto percent = [&](double value) {
    return fmt::format("{:.2f}%", 100 * (std::clamp(value, chart.first, chart.last) - chart.first) /
                                      (chart.last - chart.first));
  };
  std::string out = fmt::format(
      "<div class=\"row\" tabindex=\"0\"><span class=\"label\">{3}</span>"
      "<svg class=\"lanes\" role=\"img\" height=\"{1:.0f}\"><title>{0}</title><desc>{2}</desc>",
      escape_markup(row.label), kLaneHeight * static_cast<double>(row.dots.size()),
      escape_markup_block(describe_row(chart, row)), label_html(row.label));
  for (std::size_t s = 0; s < row.dots.size(); ++s) {
    const DotChart::Dot& d = row.dots[s];
    if (!d.present) continue;
    const double y = (static_cast<double>(s) + .5) * kLaneHeight;
    out += fmt::format(
        "<g class=\"s{}\"><line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>{}</g>",
        s % kSeriesColors, percent(d.low), percent(d.high), y, y, mark_html(s, percent(d.mean), y));
  }
  return out + "</svg></div>\n";
}

}  // namespace

std::string chart_html(const DotChart& chart) {
  const std::vector<double> values = ticks(chart);
  const auto steps = static_cast<double>(std::max<std::size_t>(values.size(), 2) - 1);
  std::string out =
      fmt::format("<figure class=\"chart\" style=\"--steps:{}\"><figcaption>{}</figcaption>\n",
                  steps, escape_markup(chart.title));
  out += legend_html(chart) + "<div class=\"plot\">\n";
  for (const DotChart::Row& row : chart.rows) out += row_html(chart, row);
  out += "<div class=\"row axis\" aria-hidden=\"true\"><span></span><svg height=\"18\">";
  for (std::size_t i = 0; i < values.size(); ++i) {
    out += fmt::format("<text x=\"{:.2f}%\" y=\"12\">{:.6g}</text>",
                       100 * static_cast<double>(i) / steps, values[i]);
  }
  out += "</svg></div>\n</div>\n";
  if (!chart.quantity.empty())
    out += "<p class=\"quantity\">" + escape_markup(chart.quantity) + ", 95% interval</p>\n";
  for (const std::string& note : chart.notes)
    out += "<p class=\"note\">" + escape_markup(note) + "</p>\n";
  return out + "</figure>\n";
}

}  // namespace turnbench
