// Tables of some methods, and differences to several baselines.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/json.h"
#include "common/text.h"
#include "hand_made_store.h"
#include "reports/pivot.h"
#include "reports/render.h"

namespace turnbench {
namespace {

using test::HandMadeStore;

const std::vector<std::string> kMethods = {"full",          "snapkv:budget=64", "snapkv:budget=96",
                                           "h2o:budget=64", "h2o:budget=96",    "tova:budget=64",
                                           "tova:budget=96"};

/// Each method has the score `right` of 4 dialogues, at all positions and in all datasets.
class BaselineTables : public testing::Test {
 protected:
  static std::string manifest(const std::string& table) {
    return R"({"name": "hand", "models": ["tiny"], "datasets": ["tiny-fact", "tiny-hop"],
               "positions": ["begin", "end"],
               "methods": ["full", "snapkv:budget=64", "snapkv:budget=96", "h2o:budget=64",
                           "h2o:budget=96", "tova:budget=64", "tova:budget=96"],
               "tables": [)" +
           table + "]}";
  }
  explicit BaselineTables(const std::string& table = R"({"methods": ["tova", "full"],
      "columns": ["position"],
      "difference_to": [{"method": "snapkv", "same": ["budget"]},
                        {"method": "h2o", "same": ["budget"]}]})")
      : hand_(manifest(table), "", kMethods) {
    const char* ids[] = {"a", "b", "c", "d"};
    for (std::size_t m = 0; m < kMethods.size(); ++m) {
      for (const char* dataset : {"tiny-fact", "tiny-hop"}) {
        for (const char* position : {"begin", "end"}) {
          for (int i = 0; i < 4; ++i) {
            hand_.add(HandMadeStore::key(dataset, position, kMethods[m]), ids[i],
                      i < rights[m] ? 1 : 0, 1);
          }
        }
      }
    }
  }
  Results results() { return Results(hand_.store(), "hand"); }
  Pivot table() {
    const Results r = results();
    return make_pivot(r, r.tables()[0]);
  }

  static constexpr int rights[] = {4, 3, 4, 2, 3, 1, 2};
  HandMadeStore hand_;
};

TEST_F(BaselineTables, ShowOnlyTheirMethods) {
  const Pivot p = table();
  EXPECT_EQ(p.rows, (std::vector<std::vector<std::string>>{
                        {"full"}, {"tova:budget=64"}, {"tova:budget=96"}}));
  EXPECT_EQ(p.basis.find("method"), std::string::npos) << p.basis;
}

// tova:64 has 1, snapkv:64 has 3, h2o:64 has 2 of 4 first turns; all second turns are right.
TEST_F(BaselineTables, ComparesWithEachBaselineOfTheSameBudget) {
  const Pivot p = table();
  EXPECT_EQ(p.baselines, (std::vector<std::string>{"snapkv (same budget)", "h2o (same budget)"}));
  const double want[2][2] = {{(1 - 3) / 8., (1 - 2) / 8.}, {(2 - 4) / 8., (2 - 3) / 8.}};
  for (std::size_t r = 0; r < 2; ++r) {
    for (std::size_t b = 0; b < 2; ++b) {
      const auto& difference = p.entries[r + 1][0]->differences[b];
      ASSERT_TRUE(difference) << r << " " << b;
      EXPECT_NEAR(difference->estimate.mean, 100 * want[r][b], 1e-9) << r << " " << b;
    }
  }
  EXPECT_FALSE(p.entries[0][0]->has_difference()) << "full has no budget";
  EXPECT_EQ(p.notes, (std::vector<std::string>{
                         "No difference to snapkv (same budget) for full: no such method exists.",
                         "No difference to h2o (same budget) for full: no such method exists."}));
  EXPECT_EQ(p.basis_note(true),
            p.basis + " Differences to snapkv (same budget), h2o (same budget).");
  EXPECT_EQ(p.basis_note(false), p.basis);
}

// All differences of the table are one family: each adjusted p is that of `compare` over all eight.
TEST_F(BaselineTables, AdjustsForAllDifferencesShown) {
  const Results r = results();
  const Pivot p = table();
  std::vector<std::vector<StratumPair>> family;
  std::vector<double> adjusted;
  const auto stratum = [&](const char* dataset, const char* position, const std::string& method) {
    return &r.stratum(HandMadeStore::key(dataset, position, method), -1);
  };
  for (std::size_t row = 1; row < 3; ++row) {
    const std::string budget = row == 1 ? "64" : "96";
    for (std::size_t column = 0; column < 2; ++column) {
      for (std::size_t b = 0; b < 2; ++b) {
        const char* position = column == 0 ? "begin" : "end";
        std::vector<StratumPair>& pairs = family.emplace_back();
        for (const char* dataset : {"tiny-fact", "tiny-hop"}) {
          pairs.push_back(
              {stratum(dataset, position, "tova:budget=" + budget),
               stratum(dataset, position, (b == 0 ? "snapkv:budget=" : "h2o:budget=") + budget)});
        }
        adjusted.push_back(p.entries[row][column]->differences[b]->against_zero.adjusted);
      }
    }
  }
  const auto expected = compare(family);
  for (std::size_t i = 0; i < adjusted.size(); ++i)
    EXPECT_EQ(adjusted[i], expected[i]->against_zero.adjusted) << i;
}

TEST_F(BaselineTables, AreRenderedInEveryFormat) {
  const Results r = results();
  const std::string md = render_markdown(r);
  EXPECT_NE(md.find("(-25.0 ["), std::string::npos) << md;
  EXPECT_NE(md.find("in parentheses the paired differences to the methods that are named under the "
                    "table, with their interval and their p"),
            std::string::npos)
      << md;
  const std::string csv = render_csv(r);
  EXPECT_NE(csv.find("begin minus snapkv (same budget),begin minus snapkv (same budget) low,"),
            std::string::npos)
      << csv;
  EXPECT_NE(csv.find("begin minus h2o (same budget) p adjusted"), std::string::npos) << csv;
  const Json json = Json::parse(render_json(r));
  const Json& table = json["tables"][0];
  EXPECT_EQ(table["difference_to"], Json::array({"snapkv (same budget)", "h2o (same budget)"}));
  const Json& entry = table["entries"][2];
  ASSERT_EQ(entry["differences"].size(), 2u);
  EXPECT_EQ(entry["differences"][0]["to"], "snapkv (same budget)");
  EXPECT_NEAR(entry["differences"][0]["mean"].get<double>(), -25, 1e-9);
  EXPECT_FALSE(table["entries"][0].contains("differences"));
  for (const char* format : {"tex", "html"}) EXPECT_NE(render_report(r, {format, false}), "");
}

// Six of the seven methods: a rule is a baseline of its own methods, and has no difference there.
class WholeTables : public BaselineTables {
 protected:
  WholeTables()
      : BaselineTables(R"({"columns": ["position"],
                           "difference_to": {"method": "snapkv", "same": ["budget"]}})") {}
};

TEST_F(WholeTables, HaveNoDifferenceOfTheBaselinesThemselves) {
  const Pivot p = table();
  ASSERT_EQ(p.rows.size(), kMethods.size());
  for (std::size_t r = 0; r < p.rows.size(); ++r)
    EXPECT_EQ(p.entries[r][0]->has_difference(), r >= 3) << p.rows[r][0];
  const std::string html = render_html(results());
  EXPECT_NE(html.find("data-baseline=\"snapkv (same budget)\""), std::string::npos);
}

// An import is a family of its own here too, and has a baseline only without `same`.
TEST_F(WholeTables, LeaveTheDifferencesOfOthersWhenPredictionsAreImported) {
  const Pivot before = table();
  for (const char* dataset : {"tiny-fact", "tiny-hop"}) {
    for (const char* position : {"begin", "end"}) {
      hand_.add_cell(dataset, position, "imported:theirs");
      hand_.add(HandMadeStore::key(dataset, position, "imported:theirs"), "a", 0, 0);
    }
  }
  const Pivot after = table();
  EXPECT_EQ(after.entries[5][0]->differences[0]->against_zero.adjusted,
            before.entries[5][0]->differences[0]->against_zero.adjusted);
  EXPECT_FALSE(after.entries[7][0]->has_difference());
  EXPECT_NE(join(after.notes, "\n").find("for full, imported:theirs: no such"), std::string::npos);
}

}  // namespace
}  // namespace turnbench
