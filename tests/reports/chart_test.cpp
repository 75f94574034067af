#include "reports/chart.h"

#include <gtest/gtest.h>

namespace turnbench {
namespace {

TEST(Chart, DrawsADotAndAnIntervalForWhatIsThere) {
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
  EXPECT_EQ(count("<circle"), 3u);               // two dots and the legend's
  EXPECT_EQ(count("stroke-width=\"1.6\""), 3u);  // three intervals
  EXPECT_EQ(count("<evil>"), 0u);
  EXPECT_EQ(count("&lt;evil&gt;"), 1u);
  EXPECT_EQ(count("a &lt; b &amp; &quot;c&quot;"), 2u);
}

}  // namespace
}  // namespace turnbench
