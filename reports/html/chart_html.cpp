#include "reports/html/chart_html.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/text.h"
#include "reports/escape.h"
#include "reports/html/text_html.h"
#include "reports/plot_svg.h"
#include "reports/series_mark.h"

namespace turnbench {
namespace {

constexpr double kLaneHeight = 13;  // also in the style sheet

/// The names of the series with their marks.
std::string legend_html(const std::vector<std::string>& names,
                        SeriesMark (*mark_of)(std::size_t series)) {
  std::string out = "<ul class=\"legend\">";
  for (std::size_t s = 0; s < names.size(); ++s) {
    out += fmt::format(
        "<li><svg class=\"{}\" width=\"12\" height=\"12\" aria-hidden=\"true\">{}</svg>{}</li>",
        mark_class(mark_of(s)), mark_svg(mark_of(s), "6", 6), escape_markup(names[s]));
  }
  return out + "</ul>\n";
}

std::string quantity_html(const std::string& text) {
  return text.empty() ? "" : "<p class=\"quantity\">" + escape_markup(text) + "</p>\n";
}

std::string notes_html(const std::vector<std::string>& notes) {
  std::string out;
  for (const std::string& note : notes) out += note_html(note);
  return out;
}

/// The begin of a row: its label, and an image with the text of its values.
std::string row_begin_html(const std::string& label, double height, const std::string& values) {
  return fmt::format(
      "<div class=\"row\" tabindex=\"0\"><span class=\"label\">{3}</span>"
      "<svg class=\"lanes\" role=\"img\" height=\"{1:.0f}\"><title>{0}</title><desc>{2}</desc>",
      escape_markup(label), height, escape_markup_block(values), label_html(label));
}

/// The begin of a chart with rows.
std::string chart_begin_html(const std::string& title, const Axis& axis) {
  const auto steps = static_cast<double>(std::max<std::size_t>(axis.ticks.size(), 2) - 1);
  return fmt::format("<figure class=\"chart\" style=\"--steps:{}\"><figcaption>{}</figcaption>\n",
                     steps, escape_markup(title));
}

std::string axis_html(const Axis& axis) {
  std::string out = "<div class=\"row axis\" aria-hidden=\"true\"><span></span><svg height=\"18\">";
  for (const Axis::Tick& tick : axis.ticks) {
    out += fmt::format("<text x=\"{:.2f}%\" y=\"12\">{}</text>", 100 * axis.place(tick.at),
                       escape_markup(tick.text));
  }
  return out + "</svg></div>\n";
}

/// One row: its label, and the dots with their intervals.
std::string row_html(const DotChart& chart, const DotChart::Row& row) {
  const auto percent = [&](double value) {
    return fmt::format("{:.2f}%", 100 * chart.axis.place(value));
  };
  std::string out = row_begin_html(row.label, kLaneHeight * static_cast<double>(row.dots.size()),
                                   describe_row(chart, row));
  for (std::size_t s = 0; s < row.dots.size(); ++s) {
    const DotChart::Dot& d = row.dots[s];
    if (!d.present) continue;
    const double y = (static_cast<double>(s) + .5) * kLaneHeight;
    out +=
        fmt::format("<g class=\"{}\"><line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>{}</g>",
                    mark_class(dot_mark(s)), percent(d.low), percent(d.high), y, y,
                    mark_svg(dot_mark(s), percent(d.mean), y));
  }
  return out + "</svg></div>\n";
}

}  // namespace

std::string chart_html(const DotChart& chart) {
  std::string out = chart_begin_html(chart.title, chart.axis);
  out += legend_html(chart.series, dot_mark) + "<div class=\"plot\">\n";
  for (const DotChart::Row& row : chart.rows) out += row_html(chart, row);
  out += axis_html(chart.axis) + "</div>\n";
  if (!chart.axis.label.empty()) out += quantity_html(chart.axis.label + ", 95% interval");
  return out + notes_html(chart.notes) + "</figure>\n";
}

std::string plot_html(const Plot& plot) {
  std::vector<std::string> names;
  for (const Plot::Series& series : plot.series) names.push_back(series.name);
  std::string out = "<figure class=\"chart lines\">";
  if (!plot.title.empty()) out += "<figcaption>" + escape_markup(plot.title) + "</figcaption>\n";
  if (names.size() > 1 || !names.front().empty()) out += legend_html(names, line_mark);
  out += "<p class=\"axis-label\">" + escape_markup(plot.y.label) + "</p>\n";
  out += fmt::format(
      "<div class=\"area\"><svg role=\"img\" height=\"{:.0f}\" "
      "aria-label=\"{}\">\n{}</svg></div>\n",
      kPlotHeight, escape_markup(plot.title + ": " + replace_all(describe(plot), "\n", "; ")),
      plot_area(plot));
  return out + quantity_html(plot.x.label) + notes_html(plot.notes) + "</figure>\n";
}

std::string distribution_html(const ScoreDistribution& distribution) {
  std::string out = chart_begin_html("", distribution.axis) + "<ul class=\"legend\">";
  for (std::size_t bin = 0; bin < distribution.bins.size(); ++bin) {
    out += fmt::format("<li><span class=\"swatch bin{}\"></span>{}</li>", bin,
                       escape_markup(distribution.bins[bin]));
  }
  out += "</ul>\n<div class=\"plot\">\n";
  for (const ScoreDistribution::Row& row : distribution.rows) {
    std::vector<std::string> values;
    std::string bars;
    double from = 0;
    for (std::size_t bin = 0; bin < row.percent.size(); ++bin) {
      values.push_back(fmt::format("{}: {:.1f}%", distribution.bins[bin], row.percent[bin]));
      bars +=
          fmt::format("<rect class=\"bin{}\" x=\"{:.2f}%\" width=\"{:.2f}%\" height=\"{:.0f}\"/>",
                      bin, from, row.percent[bin], kLaneHeight);
      from += row.percent[bin];
    }
    out += row_begin_html(row.label, kLaneHeight, join(values, "\n")) + bars + "</svg></div>\n";
  }
  return out + axis_html(distribution.axis) + "</div>\n" + quantity_html(distribution.axis.label) +
         "</figure>\n";
}

}  // namespace turnbench
