// Marks of the best and second best entries, and merged labels of rows.

#include "reports/marks.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/json.h"
#include "common/text.h"
#include "hand_made_store.h"
#include "reports/render.h"

namespace turnbench {
namespace {

using test::HandMadeStore;

/// Four methods; scores of both turns are those of a test's choice.
class Marks : public testing::Test {
 protected:
  static constexpr const char* kTables = R"("tables": [{"columns": ["position"]},
      {"rows": ["dataset", "method"], "columns": ["position"]},
      {"rows": ["dataset"], "columns": ["method"]}]})";

  explicit Marks(const std::string& more = "")
      : hand_(R"({"name": "hand", "models": ["tiny"], "datasets": ["tiny-fact", "tiny-hop"],
                  "positions": ["begin", "end"], "methods": ["full", "snapkv", "h2o", "tova"],)" +
                  (more.empty() ? kTables : more),
              "", {"full", "snapkv", "h2o", "tova"}) {}

  /// The scores of a method's first and second turns, in every dialogue.
  void add(const std::string& method, double first, double second, const char* position = "begin",
           double step = 0) {
    for (const char* dataset : {"tiny-fact", "tiny-hop"}) {
      for (const char* id : {"a", "b", "c", "d"})
        hand_.add(HandMadeStore::key(dataset, position, method), id, first, second, 100, step);
    }
  }
  Pivot table(std::size_t i = 0) {
    const Results r(hand_.store(), "hand");
    return make_pivot(r, r.tables()[i]);
  }
  /// "b", "s" or "-" for each row of the first column.
  static std::string marks(const Pivot& p, std::size_t column = 0) {
    std::string out;
    for (const auto& row : p.entries)
      out += !row[column] ? '-' : "-bs"[static_cast<int>(row[column]->mark)];
    return out;
  }

  HandMadeStore hand_;
};

// The intervals of 100 - 50 and 50 - 0 exclude 0.  full is best, but not ranked.
TEST_F(Marks, AreThoseOfDistinctMeans) {
  add("full", 1, 1);
  add("snapkv", 0, 0);
  add("h2o", 1, 1);
  add("tova", 1, 0);
  EXPECT_EQ(marks(table()), "--bs");
}

TEST_F(Marks, NeedAnIntervalThatExcludesZero) {
  add("full", 1, 1);
  add("snapkv", 1, 0);
  add("h2o", 1, 0);
  add("tova", 0, 0);
  EXPECT_EQ(marks(table()), "----") << "of two equal means, none is second";
}

// A difference of one dialogue of eight is within the interval, however different the means are.
TEST_F(Marks, DependOnTheDialogues) {
  const char* ids[] = {"a", "b", "c", "d"};
  for (const char* method : {"snapkv", "h2o"}) {
    for (const char* dataset : {"tiny-fact", "tiny-hop"}) {
      for (int i = 0; i < 4; ++i) {
        const bool lost = method == std::string("h2o") && i == 0 && dataset[5] == 'f';
        hand_.add(HandMadeStore::key(dataset, "begin", method), ids[i], lost ? 0 : 1, lost ? 0 : 1);
      }
    }
  }
  const Pivot p = table();
  EXPECT_NEAR(p.entries[1][0]->estimate.mean - p.entries[2][0]->estimate.mean, 12.5, 1e-9);
  EXPECT_EQ(marks(p), "----");
}

TEST_F(Marks, NeedTwoRankedMethods) {
  add("full", 0, 0);
  add("h2o", 1, 1);
  EXPECT_EQ(marks(table()), "----");
}

// Datasets are ranked separately; methods in columns are not ranked at all.
TEST_F(Marks, AreWithinOtherDimensionsOfTheRows) {
  add("snapkv", 0, 0);
  add("h2o", 1, 1);
  const Pivot p = table(1);
  ASSERT_EQ(p.rows.size(), 8u);
  EXPECT_EQ(marks(p), "--b---b-");
  for (std::size_t c = 0; c < 4; ++c)
    EXPECT_EQ(marks(table(2), c).find_first_of("bs"), std::string::npos);
}

// Entries whose means are of other datasets cannot be compared.
TEST_F(Marks, NeedTheSameDatasets) {
  add("snapkv", 0, 0);
  hand_.add_cell("tiny-fact", "begin", "imported:x");
  for (const char* id : {"a", "b", "c", "d"})
    hand_.add(HandMadeStore::key("tiny-fact", "begin", "imported:x"), id, 1, 1);
  EXPECT_EQ(marks(table()).find_first_of("bs"), std::string::npos);
  EXPECT_EQ(marks(table(1)), "----b----") << "imported predictions are ranked";
}

class MarksOfTimes : public Marks {
 protected:
  MarksOfTimes()
      : Marks(R"("isolated": true, "max_new_tokens": 2,
                 "tables": [{"value": "step", "columns": ["position"]}]})") {}
};

TEST_F(MarksOfTimes, AreTheSmallestOnes) {
  add("full", 1, 1, "begin", .001);
  add("snapkv", 1, 1, "begin", .03);
  add("h2o", 1, 1, "begin", .02);
  add("tova", 1, 1, "begin", .01);
  EXPECT_EQ(marks(table()), "--sb");
}

TEST_F(Marks, AreShownInEveryFormat) {
  add("full", 1, 1);
  add("snapkv", 0, 0);
  add("h2o", 1, 1);
  add("tova", 1, 0);
  Results results(hand_.store(), "hand");
  const std::string md = render_markdown(results);
  EXPECT_NE(md.find("| h2o | **100.0** ["), std::string::npos) << md;
  EXPECT_NE(md.find("| tova | *50.0* ["), std::string::npos) << md;
  EXPECT_NE(md.find("| full | 100.0 ["), std::string::npos) << md;
  EXPECT_NE(md.find("\nBold: best of its column, if the 95% interval of its paired difference"),
            std::string::npos)
      << md;
  const std::string html = render_html(results);
  EXPECT_NE(html.find("<td class=\"best\" data-cells=\"2 10\"><data value=\"100\">"),
            std::string::npos);
  EXPECT_NE(html.find("<td class=\"second\" data-cells="), std::string::npos);
  EXPECT_NE(html.find("Underlined: second best"), std::string::npos);
  const Json json = Json::parse(render_json(results));
  std::map<std::string, std::string> marks;
  for (const Json& entry : json["tables"][0]["entries"])
    marks[entry["row"][0].get<std::string>()] += entry.value("mark", "");
  EXPECT_EQ(marks["h2o"], "best");
  EXPECT_EQ(marks["tova"], "second");
  EXPECT_EQ(marks["snapkv"] + marks["full"], "");
  results.keep_table(0);
  EXPECT_EQ(render_csv(results).find('*'), std::string::npos);
  EXPECT_NE(render_csv(results).find("\nh2o,100.00,"), std::string::npos) << render_csv(results);
}

TEST_F(Marks, AreNotExplainedWithoutAny) {
  add("full", 1, 1);
  Results results(hand_.store(), "hand");
  EXPECT_EQ(render_markdown(results).find("Bold"), std::string::npos);
  EXPECT_EQ(render_html(results).find("Bold: "), std::string::npos);
}

// Labels that the row above has too are blank, or extend over the rows; CSV repeats them.
TEST_F(Marks, RepeatedLabelsAreMerged) {
  for (const char* method : {"full", "snapkv", "h2o", "tova"}) add(method, 1, 0);
  Results results(hand_.store(), "hand");
  const Pivot p = table(1);
  EXPECT_EQ(p.row_span(0, 0), 4u);
  EXPECT_EQ(p.row_span(1, 0), 0u);
  EXPECT_EQ(p.row_span(4, 0), 4u);
  EXPECT_EQ(p.row_span(1, 1), 1u) << "never in the last dimension";
  EXPECT_EQ(p.merged_labels(4), (std::vector<std::string>{"tiny-hop", "full"}));
  EXPECT_EQ(p.merged_labels(5), (std::vector<std::string>{"", "snapkv"}));
  results.keep_table(1);
  EXPECT_NE(render_markdown(results).find("\n|  | snapkv |"), std::string::npos);
  EXPECT_NE(render_html(results).find(
                "<tr><th scope=\"rowgroup\" class=\"label\" rowspan=\"4\">tiny-hop</th><th "
                "scope=\"row\" class=\"label\">full</th>"),
            std::string::npos);
  EXPECT_NE(render_html(results).find("<tr><th scope=\"row\" class=\"label\">snapkv</th><td"),
            std::string::npos);
  EXPECT_NE(render_csv(results).find("\ntiny-hop,snapkv,"), std::string::npos);
  EXPECT_NE(render_latex(results).find("\n & snapkv & "), std::string::npos);
}

}  // namespace
}  // namespace turnbench
