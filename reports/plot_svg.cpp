#include "reports/plot_svg.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/text.h"
#include "reports/escape.h"
#include "reports/series_mark.h"

namespace turnbench {
namespace {

/// Plots with more series show intervals only as text.
constexpr std::size_t kMostIntervals = 8;

/// Draws the area between the axes.
class AreaWriter {
 public:
  explicit AreaWriter(const Plot& plot) : plot_(plot) {}
  std::string write();

 private:
  std::string x_of(double value, std::size_t series) const;
  double y_of(double mean) const { return kPlotHeight * (1 - plot_.y.place(mean)); }
  void line(const std::string& x1, double y1, const std::string& x2, double y2,
            const char* attributes = "");
  void add_ticks();
  void add_front();
  void add_series(std::size_t s);

  const Plot& plot_;
  std::string out_;
};

/// The place of a value; lines of different series are slightly apart, so that intervals at one
/// value do not cover each other.
std::string AreaWriter::x_of(double value, std::size_t series) const {
  const auto count = static_cast<double>(plot_.series.size());
  const double apart = plot_.front.empty() ? std::min(.004, .03 / count) : 0;
  const double shift = (static_cast<double>(series) - (count - 1) / 2) * apart;
  return fmt::format("{:.2f}%", 100 * std::clamp(plot_.x.place(value) + shift, 0., 1.));
}

void AreaWriter::line(const std::string& x1, double y1, const std::string& x2, double y2,
                      const char* attributes) {
  out_ += fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"{}/>", x1, x2, y1, y2,
                      attributes);
}

void AreaWriter::add_ticks() {
  out_ += "<g class=\"grid\">";
  for (const Axis::Tick& tick : plot_.y.ticks) {
    const double y = y_of(tick.at);
    line("0%", y, "100%", y);
    out_ += fmt::format("<text x=\"0\" dx=\"-7\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", y + 4,
                        escape_markup(tick.text));
  }
  for (const Axis::Tick& tick : plot_.x.ticks) {
    const std::string x = fmt::format("{:.2f}%", 100 * plot_.x.place(tick.at));
    line(x, kPlotHeight, x, kPlotHeight + 4);
    out_ += fmt::format("<text x=\"{}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>", x,
                        kPlotHeight + 18, escape_markup(tick.text));
  }
  out_ += "</g>\n";
}

/// The Pareto front as steps: from each point to the right, up to the next one.
void AreaWriter::add_front() {
  if (plot_.front.empty()) return;
  out_ += "<g class=\"front\">";
  const auto place = [&](const Plot::Point& p) { return x_of(p.x, 0); };
  for (std::size_t i = 0; i < plot_.front.size(); ++i) {
    const Plot::Point& p = plot_.front[i];
    const bool is_last = i + 1 == plot_.front.size();
    const std::string next = is_last ? "100%" : place(plot_.front[i + 1]);
    line(place(p), y_of(p.mean), next, y_of(p.mean));
    if (!is_last) line(next, y_of(p.mean), next, y_of(plot_.front[i + 1].mean));
  }
  out_ += "</g>\n";
}

void AreaWriter::add_series(std::size_t s) {
  const Plot::Series& series = plot_.series[s];
  const SeriesMark mark = line_mark(s);
  out_ += fmt::format("<g class=\"series {}\">", mark_class(mark));
  for (std::size_t i = 0; i < series.points.size(); ++i) {
    const Plot::Point& p = series.points[i];
    const double y = y_of(p.mean);
    if (series.is_level) {
      out_ += "<g class=\"point\"><title>" + escape_markup(p.text()) + "</title>";
      line("0%", y, "100%", y, " stroke-dasharray=\"6 4\"");
      out_ += "</g>";
      continue;
    }
    const std::string x = x_of(p.x, s);
    if (i > 0) line(x_of(series.points[i - 1].x, s), y_of(series.points[i - 1].mean), x, y);
    out_ += "<g class=\"point\"><title>" + escape_markup(p.text()) + "</title>";
    if (plot_.series.size() <= kMostIntervals)
      line(x, y_of(p.low), x, y_of(p.high), " class=\"interval\"");
    out_ += mark_svg(mark, x, y) + "</g>";
  }
  out_ += "</g>\n";
}

std::string AreaWriter::write() {
  add_ticks();
  add_front();
  for (std::size_t s = 0; s < plot_.series.size(); ++s) add_series(s);
  return std::move(out_);
}

/// The styles of `plot_area` in an image of its own, in colours that are distinguishable for
/// colour-blind readers and in print.
constexpr const char* kStyle =
    "text{fill:#555}.title,.name{fill:#000}.grid line{stroke:#ddd}.front line{stroke:#777;"
    "stroke-dasharray:2 3}.series line{stroke:currentColor;stroke-width:1.6}.series .interval{"
    "stroke-width:1;opacity:.6}.mark{overflow:visible;fill:currentColor;stroke:currentColor}"
    ".hollow .mark{fill:#fff}.s0{color:#0072b2}.s1{color:#c98500}.s2{color:#009e73}"
    ".s3{color:#c0619b}.s4{color:#d55e00}.s5{color:#3d95c9}";

// The parts of an image, in pixels.
constexpr double kLeft = 60, kArea = 560, kRight = 24, kWidth = kLeft + kArea + kRight, kLine = 18;

/// The names of the series with their marks, in lines of the width of the area; adds the height.
std::string legend_svg(const Plot& plot, double& y) {
  constexpr double kLetter = 7.2;  // average width
  std::string out;
  double x = kLeft;
  for (std::size_t s = 0; s < plot.series.size(); ++s) {
    const std::string& name = plot.series[s].name;
    if (name.empty()) continue;
    const double width = 30 + kLetter * text_width(name);
    if (x > kLeft && x + width > kLeft + kArea) {
      x = kLeft;
      y += kLine;
    }
    out += fmt::format(
        "<g class=\"{}\">{}<text class=\"name\" x=\"{:.1f}\" y=\"{:.0f}\">{}</text></g>\n",
        mark_class(line_mark(s)), mark_svg(line_mark(s), fmt::format("{:.1f}", x), y), x + 9, y + 4,
        escape_markup(name));
    x += width;
  }
  y += kLine;
  return out;
}

struct Image {
  std::string content;
  double height = 0;
};

Image image_of(const Plot& plot) {
  Image out;
  double y = 14;
  const auto add_lines = [&](const std::string& text, double letter, const char* attributes) {
    for (const std::string& line : wrapped(one_line(text), static_cast<int>(kWidth / letter))) {
      out.content +=
          fmt::format("<text y=\"{:.0f}\"{}>{}</text>\n", y, attributes, escape_markup(line));
      y += kLine;
    }
  };
  add_lines(plot.title, 8, " class=\"title\" font-size=\"14\" font-weight=\"600\"");
  out.content += legend_svg(plot, y);
  out.content += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", kLeft, y + 4,
                             escape_markup(plot.y.label));
  y += 16;
  out.content += fmt::format(
      "<svg x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" overflow=\"visible\">\n{}"
      "</svg>\n",
      kLeft, y, kArea, kPlotHeight, plot_area(plot));
  y += kPlotHeight + 38;
  out.content += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>\n",
                             kLeft + kArea / 2, y, escape_markup(plot.x.label));
  y += kLine;
  for (const std::string& note : plot.notes) add_lines(note, 6.6, "");
  out.height = y + 10;
  return out;
}

}  // namespace

std::string plot_area(const Plot& plot) {
  return AreaWriter(plot).write();
}

std::string render_svg(const std::vector<Plot>& plots) {
  std::string out, values;
  double height = 0;
  for (const Plot& plot : plots) {
    const Image image = image_of(plot);
    out += fmt::format("<g transform=\"translate(0 {:.0f})\">\n{}</g>\n", height, image.content);
    values += (values.empty() ? "" : "\n") + describe(plot);
    height += image.height;
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
             "width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"system-ui, sans-serif\" "
             "font-size=\"12\" role=\"img\">\n<title>{2}</title>\n<desc>{3}</desc>\n"
             "<style>{4}</style>\n<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"#fff\"/>\n",
             kWidth, height, escape_markup(plots.front().title), escape_markup_block(values),
             kStyle) +
         out + "</svg>\n";
}

}  // namespace turnbench
