#include "reports/chart.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/text.h"
#include "reports/escape.h"

namespace turnbench {
namespace {

// Colours that are distinguishable for colour-blind readers and in print.
const std::vector<std::string> kColors = {"#0072b2", "#e69f00", "#009e73",
                                          "#cc79a7", "#d55e00", "#56b4e9"};
const std::vector<std::string> kMarks = {"circle", "square", "diamond"};

constexpr double kLabelWidth = 210, kPlotWidth = 520, kRight = 40, kTop = 54, kBottom = 30,
                 kQuantity = 18, kLane = 13, kGap = 12, kTitleLine = 18, kNoteLine = 16;
constexpr double kLetter = 7;  // average width of a letter in a label

/// Lines of text from `y` on.
std::string text_lines(const std::vector<std::string>& lines, double y, double step,
                       const char* attributes) {
  std::string out;
  for (const std::string& line : lines) {
    out += fmt::format("<text x=\"0\" y=\"{:.0f}\" {}>{}</text>\n", y, attributes,
                       escape_markup(line));
    y += step;
  }
  return out;
}

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

/// The names of the series with their marks, in lines from `left` to `right`; `y`: of the first
/// line, then of the last.
std::string legend(const std::vector<std::string>& series, double left, double right, double& y) {
  std::string out;
  double x = left;
  for (std::size_t s = 0; s < series.size(); ++s) {
    const double width = 30 + 7.2 * text_width(series[s]);
    if (x > left && x + width > right) {
      x = left;
      y += kTitleLine;
    }
    out += mark(s, x, y) + fmt::format("<text x=\"{:.1f}\" y=\"{:.0f}\">{}</text>\n", x + 9, y + 4,
                                       escape_markup(series[s]));
    x += width;
  }
  return out;
}

}  // namespace

void fit_axis(DotChart& chart) {
  std::vector<double> ends;
  for (const DotChart::Row& row : chart.rows) {
    for (const DotChart::Dot& dot : row.dots) {
      if (dot.present) ends.insert(ends.end(), {dot.low, dot.high});
    }
  }
  chart.axis = linear_axis(chart.axis.label, ends);
}

std::string describe_row(const DotChart& chart, const DotChart::Row& row) {
  std::vector<std::string> lines;
  for (std::size_t s = 0; s < row.dots.size(); ++s) {
    if (row.dots[s].present) lines.push_back(one_line(chart.series[s]) + ": " + row.dots[s].text);
  }
  return join(lines, "\n");
}

std::string render_svg(const DotChart& chart) {
  const double lanes = static_cast<double>(std::max<std::size_t>(1, chart.series.size()));
  const double row_height = lanes * kLane + kGap;
  double label_width = kLabelWidth;
  for (const DotChart::Row& row : chart.rows)
    label_width = std::max(label_width, 20 + kLetter * text_width(one_line(row.label)));
  const double width = label_width + kPlotWidth + kRight;
  const auto titles = wrapped(one_line(chart.title), static_cast<int>(width / 8));
  std::vector<std::string> notes;
  for (const std::string& note : chart.notes) {
    for (std::string& line : wrapped(one_line(note), static_cast<int>(width / 6.6)))
      notes.push_back(std::move(line));
  }
  const double first_name = 32 + kTitleLine * static_cast<double>(titles.size() - 1);
  double last_name = first_name;
  const std::string names = legend(chart.series, label_width, width, last_name);
  const double top = kTop + last_name - 32,
               axis = top + row_height * static_cast<double>(chart.rows.size()),
               below_axis = axis + kBottom + (chart.axis.label.empty() ? 0 : kQuantity),
               height = below_axis + kNoteLine * static_cast<double>(notes.size());
  const auto x_of = [&](double value) {
    return label_width + kPlotWidth * chart.axis.place(value);
  };
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" "
      "font-family=\"system-ui, sans-serif\" font-size=\"12\" role=\"img\">\n<title>{2}</title>\n",
      width, height, escape_markup(chart.title));
  if (!chart.axis.label.empty()) {
    out += fmt::format("<desc>{} with 95% intervals, by {}</desc>\n",
                       escape_markup(chart.axis.label), escape_markup(join(chart.series, ", ")));
  }
  out += fmt::format("<rect width=\"{:.0f}\" height=\"{:.0f}\" fill=\"#fff\"/>\n", width, height);
  out += text_lines(titles, 14, kTitleLine, "font-size=\"14\" font-weight=\"600\"");
  out += names;
  for (const Axis::Tick& tick : chart.axis.ticks) {
    out += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.0f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\" fill=\"#555\">{4}</text>\n",
        x_of(tick.at), top - 8, axis + 4, axis + 18, tick.text);
  }
  if (!chart.axis.label.empty()) {
    out += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"#555\">{}</text>\n",
        label_width + kPlotWidth / 2, axis + kBottom + 6, escape_markup(chart.axis.label));
  }
  out += text_lines(notes, below_axis + 8, kNoteLine, "fill=\"#555\"");
  double y = top;
  for (const DotChart::Row& row : chart.rows) {
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                       label_width - 12, y + lanes * kLane / 2 + 4, escape_markup(row.label));
    for (std::size_t s = 0; s < row.dots.size(); ++s) {
      const DotChart::Dot& d = row.dots[s];
      if (!d.present) continue;
      const double lane = y + (static_cast<double>(s) + 0.5) * kLane;
      out += "<g>";
      if (!d.text.empty()) {
        out += fmt::format("<title>{}</title>",
                           escape_markup(row.label + ", " + chart.series[s] + ": " + d.text));
      }
      out += fmt::format(
          "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
          "stroke-width=\"1.6\"/>",
          x_of(d.low), x_of(d.high), lane, lane, kColors[s % kColors.size()]);
      out += mark(s, x_of(d.mean), lane) + "</g>\n";
    }
    y += row_height;
  }
  return out + "</svg>\n";
}

}  // namespace turnbench
