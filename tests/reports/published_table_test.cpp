// Tables beside the numbers that a paper prints, in its order; and the warning of a smoke run.

#include <gtest/gtest.h>

#include "common/text.h"
#include "hand_made_store.h"
#include "reports/pivot.h"
#include "reports/render.h"

namespace turnbench {
namespace {

using test::HandMadeStore;

const std::string kTables = R"("tables": [
  {"title": "Each", "rows": ["method"], "columns": ["position", "dataset"]},
  {"title": "Mean", "rows": ["method"], "columns": ["position"]},
  {"title": "Turns", "rows": ["turn"], "columns": ["method"]},
  {"title": "Sweep", "rows": ["method.name"], "columns": ["method.budget", "method.pos"]}])";

std::string manifest(const std::string& more = "") {
  return R"({"name": "hand", "models": ["tiny"], "datasets": ["tiny-fact", {"name": "tiny-hop", "task": "two hops"}],
    "positions": ["begin", "end"], "methods": ["full", "snapkv:budget=64", "streamingllm"], )" +
         more + kTables + "}";
}

constexpr const char* kNumbers =
    "dataset,method,position,value,note\n"
    "tiny-fact,full | streamingllm,begin,60.5,\n"
    "tiny-fact,full,end,70,\"a, b | c\"\n"
    "tiny-hop,full,begin,30,\n"
    "mean,full,end,51.25,mean\n"
    "mean,snapkv:budget=64,,44,\n";

class PublishedTable : public testing::Test {
 protected:
  PublishedTable() {
    for (const Cell& cell : hand_.store().cells("hand"))
      for (const char* id : {"a", "b", "c", "d"}) hand_.add(cell.key, id, 1, 0);
  }
  Pivot table(std::size_t i) {
    const Results results(hand_.store(), "hand");
    return make_pivot(results, results.manifest().tables[i]);
  }

  HandMadeStore hand_ = HandMadeStore(manifest(), kNumbers);
};

using Rows = std::vector<std::vector<std::string>>;

TEST_F(PublishedTable, ColumnsAreSortedByTheManifest) {
  EXPECT_EQ(table(0).columns, (Rows{{"begin", "tiny-fact"},
                                    {"begin", "tiny-hop"},
                                    {"end", "tiny-fact"},
                                    {"end", "tiny-hop"}}));
  EXPECT_EQ(table(0).rows, (Rows{{"full"}, {"snapkv:budget=64"}, {"streamingllm"}}));
  EXPECT_EQ(table(2).rows, (Rows{{"1"}, {"2"}}));
}

TEST_F(PublishedTable, SettingsAreDimensions) {
  const Pivot p = table(3);
  EXPECT_EQ(p.rows, (Rows{{"full"}, {"snapkv"}, {"streamingllm"}}));
  EXPECT_EQ(p.columns, (Rows{{"-", "-"}, {"64", "-"}, {"1024", "keep"}}));
  for (std::size_t r = 0; r < 3; ++r) {
    for (std::size_t c = 0; c < 3; ++c) EXPECT_EQ(p.entries[r][c].has_value(), r == c);
  }
  EXPECT_EQ(p.entries[1][1]->published, 44);
}

TEST_F(PublishedTable, ANumberBelongsToEveryCellThatAgrees) {
  const Pivot p = table(0);
  const std::optional<double> none;
  const std::optional<double> want[3][4] = {
      {60.5, 30, 70, none},  // the printed mean is not that of one dataset
      {none, none, none, none},
      {60.5, none, none, none}};
  for (std::size_t r = 0; r < 3; ++r) {
    for (std::size_t c = 0; c < 4; ++c)
      EXPECT_EQ(p.entries[r][c]->published, want[r][c]) << r << " " << c;
  }
}

TEST_F(PublishedTable, MeansArePrintedOrTaken) {
  const Pivot p = table(1);
  EXPECT_EQ(p.entries[0][0]->published, (60.5 + 30) / 2) << "of the printed cells";
  EXPECT_EQ(p.entries[0][1]->published, 51.25) << "as it is printed";
  EXPECT_EQ(p.entries[1][0]->published, 44) << "for both positions";
  EXPECT_EQ(p.entries[1][1]->published, 44);
  EXPECT_FALSE(p.entries[2][0]->published) << "one of two datasets";
  EXPECT_FALSE(table(2).has_published()) << "no paper prints turns";
}

TEST_F(PublishedTable, EveryFormatShowsNumberAndDifference) {
  const Results results(hand_.store(), "hand");
  EXPECT_NE(render_markdown(results).find("[paper 51.25, -1.25]"), std::string::npos);
  EXPECT_NE(render_html(results).find("paper 51.25 (-1.25)"), std::string::npos);
  EXPECT_NE(render_latex(results).find("[51.25, $-1.25$]"), std::string::npos);
  const std::vector<std::string> lines = split(render_csv(results), "\n");
  EXPECT_TRUE(lines[0].starts_with(
      "method,begin / tiny-fact,begin / tiny-fact low,begin / tiny-fact high,begin / tiny-fact n,"
      "begin / tiny-fact failed,begin / tiny-fact published,begin / tiny-fact difference,"))
      << lines[0];
  EXPECT_TRUE(lines[1].starts_with("full,50.00,")) << lines[1];
  EXPECT_NE(lines[1].find(",8,0,60.50,-10.50,50.00,"), std::string::npos) << lines[1];
  EXPECT_TRUE(lines[2].ends_with(",8,0,,")) << lines[2];
}

TEST_F(PublishedTable, TasksAreTheManifests) {
  const Results results(hand_.store(), "hand");
  for (const Cell& cell : results.cells())
    EXPECT_EQ(cell.task, cell.dataset == "tiny-hop" ? "two hops" : "qa");
}

TEST(SmokeWarning, StandsInEveryFormat) {
  const std::string warning = "Smoke run: 100% stand-ins.";
  HandMadeStore hand(manifest("\"smoke\": \"" + warning + "\", "), kNumbers);
  const Results results(hand.store(), "hand");
  for (const char* format : {"md", "csv", "html", "json", "svg"})
    EXPECT_NE(render_report(results, {format, false}).find(warning), std::string::npos) << format;
  EXPECT_NE(render_latex(results).find("\\textbf{Smoke run: 100\\% stand-ins.}"),
            std::string::npos);
  EXPECT_TRUE(render_csv_long(results).starts_with("# " + warning + "\nmodel,"));
  // One for each table.
  const std::vector<std::string> parts = split(render_csv(results), "# " + warning);
  EXPECT_EQ(parts.size(), 1u + 4);
  HandMadeStore other;
  EXPECT_EQ(render_json(Results(other.store(), "hand")).find("\"smoke\""), std::string::npos);
}

}  // namespace
}  // namespace turnbench
