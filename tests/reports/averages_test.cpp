// Every table states the dimensions that its means average over.

#include "reports/averages.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/json.h"
#include "hand_made_store.h"
#include "reports/render.h"

namespace turnbench {
namespace {

using test::HandMadeStore;

TEST(Averages, AreDescribedOnOneLine) {
  EXPECT_EQ(describe(std::vector<AveragedDimension>{}), "");
  EXPECT_EQ(describe({{"model", {"a", "b"}}, {"turn", {"1", "2", "3"}}}),
            "Means over model (a, b), turn (1, 2, 3).");
  EXPECT_EQ(describe({{"dataset", {"a", "b", "c", "d", "e", "f", "g", "h", "i"}}}),
            "Means over dataset (9 values).");
}

/// Cells of two histories; `tables` is the end of the manifest.
class Histories : public testing::Test {
 protected:
  static std::string manifest(const std::string& tables) {
    return R"({"name": "hand", "models": ["tiny"], "datasets": ["tiny-fact", "tiny-hop"],
      "positions": ["begin", "end"], "methods": ["full"], "history": ["reprefill", "recompress"])" +
           tables + "}";
  }
  static void fill(HandMadeStore& hand) {
    for (const char* dataset : {"tiny-fact", "tiny-hop"}) {
      for (const char* position : {"begin", "end"})
        hand.add_cell(dataset, position, "full", "recompress");
    }
    for (const Cell& cell : hand.store().cells("hand")) {
      const double score = cell.history == "recompress" ? 0 : 1;
      for (const char* id : {"a", "b"}) hand.add(cell.key, id, score, score);
    }
  }
};

TEST_F(Histories, AreRowsWithoutTables) {
  HandMadeStore hand(manifest(""), "", {"full"});
  fill(hand);
  const Results results(hand.store(), "hand");
  ASSERT_EQ(results.tables().size(), 1u);
  const Pivot p = make_pivot(results, results.tables()[0]);
  EXPECT_EQ(p.row_dimensions, (std::vector<std::string>{"method", "history"}));
  EXPECT_EQ(p.column_dimensions, (std::vector<std::string>{"dataset", "position"}));
  ASSERT_EQ(p.rows,
            (std::vector<std::vector<std::string>>{{"full", "reprefill"}, {"full", "recompress"}}));
  EXPECT_EQ(p.entries[0][0]->estimate.mean, 100);
  EXPECT_EQ(p.entries[1][0]->estimate.mean, 0);
  EXPECT_NE(p.basis.find(" Means over turn (1, 2)."), std::string::npos) << p.basis;
  EXPECT_EQ(p.basis.find("history ("), std::string::npos) << p.basis;
  const std::string md = render_markdown(results);
  EXPECT_NE(md.find("| method | history | tiny-fact / begin | "), std::string::npos) << md;
  EXPECT_NE(md.find(" | kept |"), std::string::npos) << "each row is one setting";
}

TEST_F(Histories, AreNamedWhereTablesAverageThem) {
  HandMadeStore hand(manifest(R"(, "tables": [{"rows": ["method"], "columns": ["dataset"]},
                               {"rows": ["history"], "columns": ["turn"]},
                               {"rows": ["method", "history", "turn"], "columns": ["dataset", "position"]}])"),
                     "", {"full"});
  fill(hand);
  const Results results(hand.store(), "hand");
  const Pivot mixed = make_pivot(results, results.tables()[0]);
  EXPECT_EQ(mixed.entries[0][0]->estimate.mean, 50);
  const std::string over =
      "Means over position (begin, end), history (reprefill, recompress), turn (1, 2).";
  EXPECT_NE(mixed.basis.find(over), std::string::npos) << mixed.basis;
  EXPECT_NE(make_pivot(results, results.tables()[1])
                .basis.find("Means over dataset (tiny-fact, tiny-hop), position (begin, end)."),
            std::string::npos);
  EXPECT_EQ(make_pivot(results, results.tables()[2]).basis.find("Means over"), std::string::npos);
  for (const char* format : {"md", "tex", "html"})
    EXPECT_NE(render_report(results, {format, false}).find(over), std::string::npos) << format;
  const Json json = Json::parse(render_json(results));
  EXPECT_EQ(json["tables"][0]["means_over"], (Json{{"position", {"begin", "end"}},
                                                   {"history", {"reprefill", "recompress"}},
                                                   {"turn", {"1", "2"}}}));
  EXPECT_FALSE(json["tables"][2].contains("means_over"));
}

// In a grid of budgets each entry has one method, although no dimension is the method.
TEST(Averages, AreOfEntriesNotOfTables) {
  HandMadeStore hand(R"({"name": "hand", "models": ["tiny"], "datasets": ["tiny-fact", "tiny-hop"],
    "positions": ["begin", "end"], "methods": ["snapkv:budget=64", "snapkv:budget=48"],
    "tables": [{"rows": ["method.budget", "turn"], "columns": ["dataset", "position"]},
               {"rows": ["method.name", "turn"], "columns": ["dataset", "position"]}]})",
                     "", {"snapkv:budget=64", "snapkv:budget=48"});
  for (const Cell& cell : hand.store().cells("hand")) hand.add(cell.key, "a", 1, 0);
  const Results results(hand.store(), "hand");
  EXPECT_EQ(make_pivot(results, results.tables()[0]).averages.size(), 0u);
  EXPECT_NE(make_pivot(results, results.tables()[1])
                .basis.find("Means over method (snapkv:budget=64, snapkv:budget=48)."),
            std::string::npos);
}

}  // namespace
}  // namespace turnbench
