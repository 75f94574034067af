#include "reports/chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "hand_made_store.h"
#include "reports/position_chart.h"

namespace turnbench {
namespace {

TEST(Chart, DrawsADotAndAnIntervalForEachValue) {
  DotChart chart;
  chart.title = "a < b & \"c\"";
  chart.series = {"begin", "end"};
  chart.rows = {{"full", {{90, 85, 95, true}, {80, 70, 88, true}}},
                {"<evil>", {{10, 5, 20, true}, {}}}};
  const std::string svg = render_svg(chart);
  const auto count = [&](const std::string& what) {
    std::size_t n = 0;
    for (std::size_t at = 0; (at = svg.find(what, at)) != std::string::npos; at += what.size()) ++n;
    return n;
  };
  EXPECT_EQ(count("<circle"), 3u);               // two dots and that of the legend
  EXPECT_EQ(count("stroke-width=\"1.6\""), 3u);  // three intervals
  EXPECT_EQ(count("<evil>"), 0u);
  EXPECT_EQ(count("&lt;evil&gt;"), 1u);
  EXPECT_EQ(count("a &lt; b &amp; &quot;c&quot;"), 2u);
}

// From -0.3 to 0.02 in steps of 0.05, and a chart whose values are all zero.
TEST(Chart, TicksAreRoundNumbersAroundAllIntervals) {
  DotChart chart;
  chart.series = {"end"};
  chart.rows = {{"full", {{0, 0, 0, true}}}, {"other", {{-0.1, -0.3, 0.02, true}}}, {"no", {{}}}};
  fit_axis(chart);
  EXPECT_NEAR(chart.axis.first, -0.3, 1e-12);
  EXPECT_NEAR(chart.axis.last, 0.05, 1e-12);
  EXPECT_EQ(chart.axis.ticks.size(), 8u);
  const std::string svg = render_svg(chart);
  for (const char* tick : {">-0.3</text>", ">-0.05</text>", ">0.05</text>"})
    EXPECT_NE(svg.find(tick), std::string::npos) << tick;
  EXPECT_EQ(svg.find(">100</text>"), std::string::npos);
  chart.rows.resize(1);
  fit_axis(chart);
  EXPECT_EQ(chart.axis.first, 0);
  EXPECT_EQ(chart.axis.last, 1);
  chart.rows = {{"full", {{0, -1e-17, 0, true}}}, {"other", {{3, 2.5, 4 + 1e-15, true}}}};
  fit_axis(chart);
  EXPECT_EQ(chart.axis.first, 0) << "a rounding is no step";
  EXPECT_EQ(chart.axis.last, 4);
}

/// The number after `name="` at its first occurrence from `from` on.
double attribute(const std::string& svg, const std::string& name, std::size_t from = 0) {
  const std::string start = " " + name + "=\"";
  return std::stod(svg.substr(svg.find(start, from) + start.size()));
}

// Labels, at 7 units per letter, begin within the image and end before the plot.
TEST(Chart, LongLabelsAreNotClipped) {
  for (const std::size_t length : {10u, 28u, 60u, 150u}) {
    const std::string label(length, 'm');
    DotChart chart;
    chart.series = {"end"};
    chart.rows = {{label, {{100, 90, 100, true}}}};
    const std::string svg = render_svg(chart);
    const std::size_t text = svg.rfind("<text", svg.find(">" + label + "<"));
    const double end = attribute(svg, "x", text), width = attribute(svg, "width");
    EXPECT_GE(end - 7.0 * static_cast<double>(length), 0) << length;
    EXPECT_LE(attribute(svg, "x1", svg.find("<line")), end + 12 + 1e-9);
    const std::size_t dot = svg.rfind("<circle");
    EXPECT_GT(attribute(svg, "cx", dot), end) << length;
    EXPECT_LE(attribute(svg, "cx", dot), width);
    EXPECT_TRUE(length > 27 || width == 770) << "as wide as ever";
  }
}

// Every name of the legend is within the image, on as many lines as needed.
TEST(Chart, LegendsAreBrokenIntoLines) {
  DotChart chart;
  chart.rows = {{"full", {}}};
  for (int i = 0; i < 9; ++i) {
    chart.series.push_back(std::string(30, 'm') + std::to_string(i));
    chart.rows[0].dots.push_back({50, 40, 60, true});
  }
  const std::string svg = render_svg(chart);
  const double width = attribute(svg, "width");
  for (const std::string& name : chart.series) {
    const std::size_t text = svg.rfind("<text", svg.find(">" + name + "<"));
    EXPECT_LE(attribute(svg, "x", text) + 7.0 * 31, width) << name;
    EXPECT_LT(attribute(svg, "y", text), attribute(svg, "y1", svg.find("<line"))) << name;
  }
}

TEST(Chart, TitlesAndNotesAreBrokenIntoLines) {
  DotChart chart;
  for (int i = 0; i < 40; ++i) chart.title += "title ";
  chart.series = {"end"};
  chart.rows = {{"full", {{100, 90, 100, true}}}};
  const double plain = attribute(render_svg(chart), "height");
  chart.notes = {"short", std::string(200, 'n')};
  const std::string svg = render_svg(chart);
  EXPECT_EQ(attribute(svg, "height"), plain + 3 * 16) << "one line and two";
  double highest = 0;
  for (std::size_t at = svg.find("<text"); at != std::string::npos;
       at = svg.find("<text", at + 1)) {
    highest = std::max(highest, attribute(svg, "y", at));
    const std::size_t begin = svg.find('>', at) + 1;
    EXPECT_LE(svg.find('<', begin) - begin, 117u);
  }
  EXPECT_LT(highest, attribute(svg, "height"));
}

// Histories have their own rows.  A mean is over all datasets or absent.
TEST(PositionChart, AveragesOnlyOverDatasets) {
  test::HandMadeStore hand;
  for (const Cell& cell : hand.store().cells("hand")) {
    for (const char* id : {"a", "b", "c", "d"}) hand.add(cell.key, id, 1, 1);
  }
  hand.add_cell("tiny-fact", "begin", "full", "recompress");
  for (const char* id : {"a", "b", "c", "d"})
    hand.add(test::HandMadeStore::key("tiny-fact", "begin", "full") + " recompress", id, 0, 1);
  const std::vector<DotChart> charts = position_charts(Results(hand.store(), "hand"));
  ASSERT_EQ(charts.size(), 3u);
  EXPECT_EQ(charts[0].title, "all datasets");
  EXPECT_EQ(charts[1].title, "tiny-fact");
  const auto row = [](const DotChart& chart, const std::string& label) {
    const auto found = std::find_if(chart.rows.begin(), chart.rows.end(),
                                    [&](const DotChart::Row& r) { return r.label == label; });
    EXPECT_NE(found, chart.rows.end()) << label;
    return found->dots;
  };
  for (const DotChart& chart : charts) {
    EXPECT_EQ(chart.series, (std::vector<std::string>{"begin", "end"}));
    ASSERT_EQ(chart.rows.size(), 4u);
    EXPECT_EQ(row(chart, "full, reprefill")[0].mean, 100);
    EXPECT_FALSE(row(chart, "full, recompress")[1].present);
  }
  EXPECT_EQ(row(charts[1], "full, recompress")[0].mean, 50);
  EXPECT_FALSE(row(charts[0], "full, recompress")[0].present) << "of one dataset alone";
  EXPECT_NE(charts[0].notes.front().find("full / recompress, begin lacks tiny-hop (not there)"),
            std::string::npos);
}

}  // namespace
}  // namespace turnbench
