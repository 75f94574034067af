// Tables of several quantities.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/json.h"
#include "hand_made_store.h"
#include "reports/pivot.h"
#include "reports/render.h"

namespace turnbench {
namespace {

using test::HandMadeStore;

/// snapkv scores less than h2o but is faster; both are compared with full.
class TableOfValues : public testing::Test {
 protected:
  explicit TableOfValues(const std::string& table = R"({"title": "Both",
      "values": ["score", "step"], "columns": ["position"], "difference_to": "full"})")
      : hand_(R"({"name": "hand", "models": ["tiny"], "datasets": ["tiny-fact", "tiny-hop"],
                  "positions": ["begin"], "methods": ["full", "snapkv", "h2o"], "isolated": true,
                  "max_new_tokens": 2, "tables": [)" +
                  table + "]}",
              "method,metric,value\nh2o,step,12.5\nh2o,qa_f1,97\n", {"full", "snapkv", "h2o"}) {
    for (const Cell& cell : hand_.store().cells("hand")) {
      if (cell.position != "begin") continue;
      const bool snap = cell.method == "snapkv", full = cell.method == "full";
      for (const char* id : {"a", "b", "c", "d"})
        hand_.add(cell.key, id, 1, snap ? 0 : 1, 100, full ? .03 : snap ? .01 : .02);
    }
  }
  Results results() { return Results(hand_.store(), "hand"); }
  Pivot table() {
    const Results r = results();
    return make_pivot(r, r.tables()[0]);
  }

  HandMadeStore hand_;
};

TEST_F(TableOfValues, HasAColumnForEach) {
  const Pivot p = table();
  EXPECT_EQ(p.title, "Both: score (x100), step (ms)");
  EXPECT_EQ(p.notes,
            std::vector<std::string>{"step: median time between two tokens of an answer."});
  ASSERT_GE(p.columns.size(), 2u);
  EXPECT_EQ(p.columns[0], (std::vector<std::string>{"begin", "score"}));
  EXPECT_EQ(p.columns[1], (std::vector<std::string>{"begin", "step"}));
  EXPECT_NEAR(p.entries[1][0]->estimate.mean, 50, 1e-9);
  EXPECT_NEAR(p.entries[1][1]->estimate.mean, 10, 1e-9);
  EXPECT_NEAR(p.entries[1][0]->differences[0]->estimate.mean, -50, 1e-9);
  EXPECT_NEAR(p.entries[1][1]->differences[0]->estimate.mean, -20, 1e-9);
  EXPECT_EQ(p.entries[2][0]->published, 97);
  EXPECT_EQ(p.entries[2][1]->published, 12.5);
}

// Higher scores and smaller times are better.
TEST_F(TableOfValues, RanksEachInItsDirection) {
  const Pivot p = table();
  EXPECT_EQ(p.entries[2][0]->mark, Mark::kBest);
  EXPECT_EQ(p.entries[1][1]->mark, Mark::kBest);
  EXPECT_EQ(p.entries[1][0]->mark, Mark::kNone);
}

TEST_F(TableOfValues, IsRenderedWithTheDigitsOfEach) {
  Results r = results();
  const std::string md = render_markdown(r);
  EXPECT_NE(md.find("| begin / score | begin / step |"), std::string::npos) << md;
  EXPECT_NE(md.find("| snapkv | 50.0 ["), std::string::npos) << md;
  EXPECT_NE(md.find(" **10.00** [10.00, 10.00] (-20.00 ["), std::string::npos) << md;
  const Json table = Json::parse(render_json(r))["tables"][0];
  EXPECT_EQ(
      table["values"],
      Json::parse(R"([{"value": "score", "unit": "x100"}, {"value": "step", "unit": "ms"}])"));
  EXPECT_FALSE(table.contains("value"));
  const std::string html = render_html(r);
  EXPECT_NE(html.find("worse than full (orange), better than full (blue)"), std::string::npos);
  EXPECT_NE(html.find("<td class=\"worse\" data-cells=\"1 7\"><data value=\"50\">50.0</data>"),
            std::string::npos);
  EXPECT_NE(
      html.find("<td class=\"better best\" data-cells=\"1 7\"><data value=\"10\">10.00</data>"),
      std::string::npos);
  EXPECT_NE(render_csv(r).find("\nsnapkv,50.00,"), std::string::npos) << render_csv(r);
  EXPECT_NE(render_csv(r).find(",10.000,10.000,10.000,8,"), std::string::npos) << render_csv(r);
  EXPECT_NE(render_latex(r).find(" & score & step"), std::string::npos);
}

class RowsOfValues : public TableOfValues {
 protected:
  RowsOfValues()
      : TableOfValues(
            R"({"values": ["step", "score"], "rows": ["value", "method"], "columns": ["position"]})") {
  }
};

TEST_F(RowsOfValues, AreInTheirOwnOrder) {
  const Pivot p = table();
  ASSERT_EQ(p.rows.size(), 6u);
  EXPECT_EQ(p.rows[0], (std::vector<std::string>{"step", "full"}));
  EXPECT_EQ(p.rows[3], (std::vector<std::string>{"score", "full"}));
  EXPECT_NEAR(p.entries[1][0]->estimate.mean, 10, 1e-9);
  EXPECT_NEAR(p.entries[4][0]->estimate.mean, 50, 1e-9);
  EXPECT_EQ(p.entries[1][0]->mark, Mark::kBest) << "the fastest";
  EXPECT_EQ(p.entries[5][0]->mark, Mark::kBest) << "of the scores";
}

}  // namespace
}  // namespace turnbench
