#include "reports/chart.h"

#include <fmt/format.h>

#include <algorithm>

namespace turnbench {
namespace {

// Colours that stay apart for colour-blind readers and in print.
const std::vector<std::string> kColors = {"#0072b2", "#e69f00", "#009e73",
                                          "#cc79a7", "#d55e00", "#56b4e9"};
const std::vector<std::string> kMarks = {"circle", "square", "diamond"};

constexpr double kLabelWidth = 210, kPlotWidth = 520, kRight = 40, kTop = 54, kBottom = 30,
                 kLane = 13, kGap = 12;

std::string mark(std::size_t series, double x, double y) {
  const std::string& color = kColors[series % kColors.size()];
  switch (series % kMarks.size()) {
    case 0:
      return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>", x, y, color);
    case 1:
      return fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"7.4\" height=\"7.4\" fill=\"{}\"/>", x - 3.7,
          y - 3.7, color);
    default:
      return fmt::format("<path d=\"M{0:.1f} {1:.1f}l4.9 4.9l-4.9 4.9l-4.9 -4.9z\" fill=\"{2}\"/>",
                         x, y - 4.9, color);
  }
}

}  // namespace

std::string escape_markup(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string render_svg(const DotChart& chart) {
  const double lanes = static_cast<double>(std::max<std::size_t>(1, chart.series.size()));
  const double row_height = lanes * kLane + kGap;
  const double height = kTop + row_height * static_cast<double>(chart.rows.size()) + kBottom;
  const double width = kLabelWidth + kPlotWidth + kRight;
  const auto x_of = [](double value) {
    return kLabelWidth + kPlotWidth * std::clamp(value, 0.0, 100.0) / 100;
  };
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" "
      "font-family=\"system-ui, sans-serif\" font-size=\"12\" role=\"img\" aria-label=\"{2}\">\n",
      width, height, escape_markup(chart.title));
  out += fmt::format("<rect width=\"{:.0f}\" height=\"{:.0f}\" fill=\"#fff\"/>\n", width, height);
  out += fmt::format("<text x=\"0\" y=\"14\" font-size=\"14\" font-weight=\"600\">{}</text>\n",
                     escape_markup(chart.title));
  double at = kLabelWidth;
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    out += mark(s, at, 32) + fmt::format("<text x=\"{:.1f}\" y=\"36\">{}</text>\n", at + 9,
                                         escape_markup(chart.series[s]));
    at += 30 + 7.2 * static_cast<double>(chart.series[s].size());
  }
  for (int tick = 0; tick <= 100; tick += 20) {
    out += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.0f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\" fill=\"#555\">{4}</text>\n",
        x_of(tick), kTop - 8, height - kBottom + 4, height - kBottom + 18, tick);
  }
  double y = kTop;
  for (const DotChart::Row& row : chart.rows) {
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                       kLabelWidth - 12, y + lanes * kLane / 2 + 4, escape_markup(row.label));
    for (std::size_t s = 0; s < row.dots.size(); ++s) {
      const DotChart::Dot& d = row.dots[s];
      if (!d.present) continue;
      const double lane = y + (static_cast<double>(s) + 0.5) * kLane;
      out += fmt::format(
          "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
          "stroke-width=\"1.6\"/>",
          x_of(d.low), x_of(d.high), lane, lane, kColors[s % kColors.size()]);
      out += mark(s, x_of(d.mean), lane) + "\n";
    }
    y += row_height;
  }
  return out + "</svg>\n";
}

}  // namespace turnbench
