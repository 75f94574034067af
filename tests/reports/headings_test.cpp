#include "reports/headings.h"

#include <gtest/gtest.h>

#include "hand_made_store.h"
#include "reports/render.h"

namespace turnbench {
namespace {

TEST(Headings, NumbersHaveNames) {
  EXPECT_EQ(dimension_heading("method.eta"), "eta");
  EXPECT_EQ(dimension_heading("method.method"), "method");
  for (const char* name : {"method", "method.name", "method.variant", "turn", "dataset"})
    EXPECT_EQ(dimension_heading(name), name);
  EXPECT_EQ(value_heading({"position", "turn"}, {"begin", "2"}), "begin / turn 2");
  EXPECT_EQ(value_heading({"method.budget"}, {"256"}), "budget 256");
  EXPECT_EQ(value_heading({"method.budget", "dataset"}, {"-", "-"}), "no budget / -");
  EXPECT_EQ(value_heading({"method.name", "method.variant"}, {"full", "snapkv"}), "full / snapkv");
  EXPECT_EQ(value_heading({}, {}), "");
}

TEST(Headings, AreUsedInTables) {
  test::HandMadeStore hand(R"({"name": "hand", "models": ["tiny"],
    "datasets": ["tiny-fact", "tiny-hop"], "positions": ["begin", "end"],
    "methods": ["full", "snapkv:budget=64", "streamingllm"],
    "tables": [{"rows": ["method.budget"], "columns": ["turn"]},
               {"rows": ["turn"], "columns": ["method.budget"]}]})",
                           "");
  for (const Cell& cell : hand.store().cells("hand")) hand.add(cell.key, "a", 1, 0);
  Results results(hand.store(), "hand");
  const std::string md = render_markdown(results);
  EXPECT_NE(md.find("| budget | turn 1 | turn 2 |"), std::string::npos) << md;
  EXPECT_NE(md.find("| turn | no budget | budget 64 |"), std::string::npos) << md;
  EXPECT_NE(render_html(results).find(
                "<th scope=\"col\" class=\"label\">budget</th><th scope=\"col\">turn 1</th>"),
            std::string::npos);
  EXPECT_NE(render_latex(results).find("budget & turn 1 & turn 2"), std::string::npos);
  results.keep_table(0);
  EXPECT_TRUE(render_csv(results).starts_with("method.budget,turn 1,turn 1 low,"));
}

}  // namespace
}  // namespace turnbench
