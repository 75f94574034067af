// A csv file is a single table; remarks and warnings are printed elsewhere.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/json.h"
#include "common/text.h"
#include "hand_made_store.h"
#include "reports/notes.h"
#include "reports/render.h"
#include "reports/tables.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

using test::HandMadeStore;

class Csv : public testing::Test {
 protected:
  Csv() {
    std::string manifest = test::kManifest;
    manifest.insert(manifest.find("\"tables\""), "\"smoke\": \"Smoke\", ");
    manifest.replace(manifest.find("\"title\": \"Turns\", "), 18, "");
    hand_.emplace(manifest);
    hand_->add(HandMadeStore::key("tiny-fact", "begin", "full"), "a", 1, 1);
    hand_->add_failure(HandMadeStore::key("tiny-fact", "end", "full"), "a");
  }
  Results results() { return Results(hand_->store(), "hand"); }

  std::optional<HandMadeStore> hand_;
};

/// Expects a header, and lines with the same number of fields.  Quoted fields have commas but no
/// quotes.
void expect_table(const std::string& csv) {
  ASSERT_TRUE(csv.ends_with('\n'));
  EXPECT_EQ(csv.find_first_of("#\r"), std::string::npos) << csv;
  std::string unquoted;
  bool quoted = false;
  for (const char c : csv) {
    quoted ^= c == '"';
    unquoted += quoted && c == ',' ? ' ' : c;
  }
  EXPECT_FALSE(quoted);
  const std::vector<std::string> lines =
      split(std::string_view(unquoted).substr(0, unquoted.size() - 1), "\n");
  EXPECT_GT(lines.size(), 2u);
  for (const std::string& line : lines)
    EXPECT_EQ(split(line, ",").size(), split(lines[0], ",").size()) << line;
}

TEST_F(Csv, IsOneTable) {
  for (std::size_t i = 0; i < 3; ++i) {
    Results one = results();
    one.keep_table(i);
    expect_table(render_csv(one));
    expect_table(render_csv_long(one));
    EXPECT_EQ(warnings(one).front(), "Smoke");
    EXPECT_GT(warnings(one).size(), 1u) << "dialogues that have not run, and what failed";
  }
}

TEST_F(Csv, OfSeveralTablesIsRefused) {
  EXPECT_EQ(
      test::message_of([&] { render_csv(results()); }),
      "--format csv: found 3 tables (1 \"All\", 2 \"Each\", 3 (turn by method)), expected --table "
      "with the number or title of one of them, or --long for all cells");
  expect_table(render_csv_long(results()));
}

TEST_F(Csv, TablesAreFoundByNumberOrTitle) {
  std::vector<TableSpec> tables = results().tables();
  EXPECT_EQ(find_table(tables, "1"), 0u);
  EXPECT_EQ(find_table(tables, "Each"), 1u);
  EXPECT_EQ(find_table(tables, "3"), 2u);
  const std::string expected =
      "expected the number or title of one of: 1 \"All\", 2 \"Each\", 3 (turn by method)";
  for (const char* other : {"0", "4", "-1", "each", "", "1.5"}) {
    EXPECT_EQ(test::message_of([&] { find_table(tables, other); }),
              std::string("--table: found \"") + other + "\", " + expected);
  }
  tables[0].title = "3";
  EXPECT_EQ(find_table(tables, "3"), 2u) << "a number before a title: every table has one";
  tables[0].title = tables[1].title = "4";
  EXPECT_EQ(
      test::message_of([&] { find_table(tables, "4"); }),
      "--table: found \"4\", the title of 2 tables, expected the number or title of one of: 1 "
      "\"4\", 2 \"4\", 3 (turn by method)");
}

// A reader that finds fields by the name of their column would get those of another one.
TEST(CsvColumns, HaveDistinctNames) {
  HandMadeStore hand(R"({"name": "hand", "models": ["tiny"], "datasets": ["tiny-fact", "tiny-hop"],
    "positions": ["begin"], "methods": ["full"],
    "tables": [{"rows": ["dataset"], "columns": ["method"]}]})",
                     "", {"full"});
  hand.add_cell("tiny-fact", "begin", "full low");
  const Results results(hand.store(), "hand");
  EXPECT_EQ(test::message_of([&] { render_csv(results); }),
            "--format csv: found two columns named full low, expected labels that give different "
            "names, or --long");
  EXPECT_NE(render_csv_long(results), "");
}

TEST(SharedTexts, AreCountedInTablesCsvAndJson) {
  for (const bool shares : {false, true}) {
    HandMadeStore hand(test::kManifest, "", {"full"}, "{}", shares);
    for (const char* dataset : {"tiny-fact", "tiny-hop"}) {
      for (const char* id : {"a", "b", "c"})
        hand.add(HandMadeStore::key(dataset, "begin", "full"), id, 1, id[0] == 'b' ? 1 : 0);
    }
    hand.add(HandMadeStore::key("tiny-fact", "begin", "full"), "d", 1, 1);  // in one dataset only
    Results results(hand.store(), "hand");
    EXPECT_EQ(render_markdown(results).find("6 of them share texts and form 3 units of intervals "
                                            "and p.") != std::string::npos,
              shares);
    const Json json = Json::parse(render_json(results));
    EXPECT_EQ(json["cells"][0]["units"], 4) << "of one dataset";
    const Json& entry = json["tables"][0]["entries"][0];
    EXPECT_EQ(entry["n"], 7);
    EXPECT_EQ(entry["units"], shares ? 4 : 7);
    EXPECT_NE(render_csv_long(results).find(",units"), std::string::npos);
    results.keep_table(0);
    const std::string csv = render_csv(results);
    EXPECT_EQ(csv.find("begin units") != std::string::npos, shares) << csv;
    EXPECT_EQ(csv.find(",7,14,0,4,") != std::string::npos, shares) << csv;
  }
}

TEST_F(Csv, FormulasAreGuardedUnlessAskedOtherwise) {
  hand_->add_cell("tiny-fact", "begin", "-2+3");
  const std::string guarded = render_csv_long(results()),
                    plain = render_csv_long(results(), {.guard_formulas = false});
  EXPECT_NE(guarded.find(",'-2+3,"), std::string::npos) << guarded;
  EXPECT_NE(plain.find(",-2+3,"), std::string::npos) << plain;
}

}  // namespace
}  // namespace turnbench
