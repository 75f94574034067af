// Plots over a setting and over a cost, heat maps, and the distribution of scores.

#include <gtest/gtest.h>

#include "hand_made_store.h"
#include "reports/cost_plots.h"
#include "reports/html/charts.h"
#include "reports/html/heat_map.h"
#include "reports/plot_svg.h"
#include "reports/render.h"
#include "reports/score_distribution.h"
#include "reports/table_plots.h"

namespace turnbench::test {
namespace {

using Names = std::vector<std::string>;

/// A table of shares whose entries are their number, row by row; those below 0 are missing.
Pivot table(const Names& row_dimensions, const std::vector<Names>& rows,
            const Names& column_dimensions, const std::vector<Names>& columns,
            const std::vector<double>& means) {
  Pivot out;
  out.values = {find_table_value("score")};
  out.row_dimensions = row_dimensions;
  out.rows = rows;
  out.column_dimensions = column_dimensions;
  out.columns = columns;
  std::size_t i = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    auto& entries = out.entries.emplace_back();
    for (std::size_t c = 0; c < columns.size(); ++c, ++i) {
      entries.emplace_back();
      if (means[i] < 0) continue;
      Estimate& e = entries.back().emplace().estimate;
      e.known = true;
      e.mean = means[i];
      e.interval = Interval{means[i] - 1, means[i] + 2};
    }
  }
  return out;
}

TEST(TablePlots, LinesOverABudgetForEachPosition) {
  const Pivot p = table({"method.variant"}, {{"full"}, {"snapkv"}}, {"method.budget", "position"},
                        {{"-", "begin"},
                         {"-", "end"},
                         {"256", "begin"},
                         {"256", "end"},
                         {"64", "begin"},
                         {"64", "end"},
                         {"16", "begin"},
                         {"16", "end"}},
                        {98, 99, -1, -1, -1, -1, -1, -1, -1, -1, 44, 75, 12, 24, 3, 4});
  const std::vector<Plot> plots = table_plots(p);
  ASSERT_EQ(plots.size(), 2u);
  EXPECT_EQ(plots[0].title, "begin");
  EXPECT_EQ(plots[1].title, "end");
  ASSERT_EQ(plots[1].series.size(), 2u);
  EXPECT_TRUE(plots[1].series[0].is_level);
  EXPECT_EQ(plots[1].series[0].points.at(0).mean, 99);
  const Plot::Series& snapkv = plots[1].series[1];
  EXPECT_EQ(snapkv.name, "snapkv");
  ASSERT_EQ(snapkv.points.size(), 3u);
  EXPECT_EQ(snapkv.points[0].x, 16);
  EXPECT_EQ(snapkv.points[2].x, 256);
  EXPECT_EQ(snapkv.points[2].mean, 75);
  EXPECT_EQ(snapkv.points[2].low, 74);
  EXPECT_EQ(snapkv.points[2].text(), "snapkv, budget 256: 75.0 [74.0, 77.0]");
  EXPECT_EQ(plots[1].x.label, "budget");
  EXPECT_TRUE(plots[1].x.is_log);
  EXPECT_EQ(plots[1].y.label, "mean score (x100)");
}

TEST(TablePlots, HaveSharesOrTokensButNotBoth) {
  const auto of = [](const std::string& dimension, const Names& budgets) {
    std::vector<Names> columns;
    for (const std::string& budget : budgets) columns.push_back({budget});
    return table_plots(table({"method.variant"}, {{"snapkv"}}, {dimension}, columns,
                             std::vector<double>(budgets.size(), 1)));
  };
  EXPECT_EQ(of("method.budget", {"1/8", "1/4", "0.5"}).at(0).series.at(0).points.at(2).x, .5);
  EXPECT_TRUE(of("method.budget", {"1/8", "1/4", "0.5", "256"}).empty());
  EXPECT_EQ(of("method.alpha", {"1/8", "1/4", "0.5", "2"}).size(), 1u);
}

TEST(Charts, HaveTheNotesOfSmokeRunsAndPartialStores) {
  std::string manifest = kManifest;
  manifest.insert(manifest.find("\"tables\""), "\"smoke\": \"Not real\", ");
  HandMadeStore hand(manifest);
  for (const Cell& cell : hand.store().cells("hand")) {
    for (const char* id : {"a", "b"}) hand.add(cell.key, id, 1, 1);
  }
  const Results results(hand.store(), "hand");
  for (const ChartKind kind : {ChartKind::kPositions, ChartKind::kTable}) {
    const std::string svg = render_chart(results, kind);
    EXPECT_NE(svg.find("Not real"), std::string::npos);
    EXPECT_NE(svg.find("Partial: "), std::string::npos);
  }
}

// Without other dimensions of rows, the columns are the lines.
TEST(TablePlots, ColumnsAreLinesIfRowsAreTheAxis) {
  const Pivot p = table({"method.eta"}, {{"0.1"}, {"0.2"}, {"0.3"}}, {"model"}, {{"a"}, {"b"}},
                        {1, 2, 3, 4, 5, 6});
  const std::vector<Plot> plots = table_plots(p);
  ASSERT_EQ(plots.size(), 1u);
  ASSERT_EQ(plots[0].series.size(), 2u);
  EXPECT_EQ(plots[0].series[1].name, "b");
  EXPECT_EQ(plots[0].series[1].points[2].mean, 6);
  EXPECT_FALSE(plots[0].x.is_log);
}

TEST(TablePlots, NeedThreeNumbers) {
  EXPECT_TRUE(table_plots(table({"method"}, {{"a"}, {"b"}}, {"position"}, {{"begin"}, {"end"}},
                                {1, 2, 3, 4}))
                  .empty());
  EXPECT_TRUE(table_plots(table({"method.layers"}, {{"4/3/2/1"}, {"2"}, {"1"}}, {"position"},
                                {{"end"}}, {1, 2, 3}))
                  .empty())
      << "a list is no number";
  EXPECT_TRUE(table_plots(table({"method.budget"}, {{"1"}, {"2"}, {"3"}}, {"position"}, {{"end"}},
                                {1, -1, 3}))
                  .empty())
      << "one has no result";
}

TEST(HeatMaps, OfEachMethod) {
  const Pivot p = table({"method", "dataset.depth"},
                        {{"full", "0"},
                         {"full", "50"},
                         {"full", "100"},
                         {"snapkv", "0"},
                         {"snapkv", "50"},
                         {"snapkv", "100"}},
                        {"dataset.length"}, {{"1000"}, {"2000"}, {"4000"}},
                        {100, 90, 80, 100, 100, 100, 50, 25, -1, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  const std::vector<std::string> maps = heat_maps_html(p);
  ASSERT_EQ(maps.size(), 2u);
  EXPECT_NE(maps[0].find("<figcaption>full</figcaption>"), std::string::npos) << maps[0];
  EXPECT_NE(maps[0].find("<caption>score by depth and length</caption>"), std::string::npos);
  EXPECT_NE(maps[0].find("<tr><th scope=\"row\">100</th><td style=\"--heat:50%\" title=\"50.0 "
                         "[49.0, 52.0]\">50.0</td><td style=\"--heat:25%\""),
            std::string::npos)
      << maps[0];
  EXPECT_NE(maps[0].find("<td></td></tr>"), std::string::npos) << "no result";
  EXPECT_NE(maps[1].find(">9.0</td>"), std::string::npos);
  EXPECT_TRUE(heat_maps_html(table({"method"}, {{"a"}, {"b"}, {"c"}}, {"dataset.length"},
                                   {{"1"}, {"2"}, {"3"}}, {1, 2, 3, 4, 5, 6, 7, 8, 9}))
                  .empty());
}

// "-" for a dataset without the key.
TEST(Dimensions, LengthAndDepthOfDatasets) {
  HandMadeStore hand(R"({"name": "hand", "models": ["tiny"], "methods": ["full"],
    "datasets": [{"name": "needle", "label": "tiny-fact", "length": 400, "depth": 12.5},
                 "tiny-hop"],
    "tables": [{"rows": ["dataset.length"], "columns": ["dataset.depth"]}]})",
                     "", {"full"});
  for (const Cell& cell : hand.store().cells("hand")) hand.add(cell.key, "a", 1, 0);
  const Results results(hand.store(), "hand");
  const Pivot p = make_pivot(results, results.tables()[0]);
  EXPECT_EQ(p.rows, (std::vector<Names>{{"400"}, {"-"}}));
  EXPECT_EQ(p.columns, (std::vector<Names>{{"12.5"}, {"-"}}));
  EXPECT_TRUE(p.entries[0][0] && !p.entries[0][1] && p.entries[1][1]);
}

TEST(PlotSvg, HasEveryValueAndNoMarkup) {
  Plot plot;
  plot.title = "a < b";
  plot.x = log_axis("tokens", {64, 256}, {"64", "256"});
  plot.y = share_axis("mean score (x100)");
  plot.series = {{"<evil>", {{64, 10, 5, 20, "<evil>", "10"}, {256, 30, 25, 40, "<evil>", "30"}}},
                 {"full", {{0, 98, 97, 99, "full", "98"}}, true}};
  plot.front = {plot.series[0].points[0]};
  const std::string svg = render_svg(std::vector{plot});
  EXPECT_EQ(svg.find("<evil>"), std::string::npos);
  for (const char* part : {"a &lt; b", "&lt;evil&gt;: 30", "full: 98", ">256</text>", ">tokens<",
                           ">mean score (x100)<", "class=\"front\"", "stroke-dasharray=\"6 4\""})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  // The mean of 30 of 100 is 70% of the height below the top.
  EXPECT_NE(plot_area(plot).find("y=\"196.0\""), std::string::npos);
}

class HandMadePlots : public testing::Test {
 protected:
  HandMadePlots() {
    for (const Cell& cell : hand_.store().cells("hand")) {
      const bool full = cell.method == "full", snapkv = cell.method == "snapkv:budget=64";
      for (const char* id : {"a", "b", "c", "d"}) {
        const double high = full ? 1 : snapkv ? .5 : 0;
        hand_.add(cell.key, id, high, snapkv ? .75 : high, full ? 900 : snapkv ? 64 : 512);
      }
    }
  }
  HandMadeStore hand_;
};

// Costs of records without the counter are not drawn; `streamingllm` is worse than `snapkv`.
TEST_F(HandMadePlots, CostsThatTheStoreHas) {
  EXPECT_TRUE(cost_plots(Results(hand_.store(), "hand")).empty()) << "only kept tokens are there";
  const std::string html = distribution_chart_html(Results(hand_.store(), "hand"));
  EXPECT_NE(html.find("above 0, up to 50: 50.0%"), std::string::npos) << html;
}

// The charts of single datasets are in a block that can be opened, if there is room for them.
TEST_F(HandMadePlots, FoldedChartsReduceTheBudget) {
  const Results results(hand_.store(), "hand");
  ViewBudget budget;
  const std::string all = position_charts_html(results, budget);
  EXPECT_NE(all.find("<summary>Each of 2 datasets</summary>"), std::string::npos);
  const std::size_t bytes = ViewBudget().folded_charts - budget.folded_charts;
  EXPECT_GT(bytes, 1000u);
  budget.folded_charts = bytes - 1;
  const std::string cut = position_charts_html(results, budget);
  EXPECT_EQ(cut.find("<summary>"), std::string::npos);
  EXPECT_NE(cut.find("2 more charts are left out, because the page would be too large."),
            std::string::npos);
  EXPECT_EQ(budget.folded_charts, bytes - 1);
}

TEST_F(HandMadePlots, DistributionOfTurns) {
  const ScoreDistribution d = score_distribution(Results(hand_.store(), "hand"));
  ASSERT_EQ(d.rows.size(), 3u);
  EXPECT_EQ(d.rows[0].label, "full");
  EXPECT_EQ(d.rows[0].percent, (std::vector<double>{0, 0, 0, 100}));
  EXPECT_EQ(d.rows[1].percent, (std::vector<double>{0, 50, 50, 0}));
  EXPECT_EQ(d.rows[2].percent, (std::vector<double>{100, 0, 0, 0}));
}

TEST(CostPlots, ConnectTheBudgetsOfAMethod) {
  HandMadeStore hand(kManifest, "", {"full", "snapkv:budget=64", "snapkv:budget=512"});
  for (const Cell& cell : hand.store().cells("hand")) {
    const double tokens = cell.method == "full" ? 900 : cell.method.ends_with("64") ? 64 : 512;
    for (const char* id : {"a", "b", "c", "d"}) {
      std::vector<Record> records;
      std::vector<ScoreValue> scores;
      for (int turn = 0; turn < 2; ++turn) {
        Record r;
        r.cell = cell.key;
        r.dialogue = id;
        r.turn = turn;
        r.counters = {{"attended_tokens", tokens},
                      {"kv_bytes", tokens * 2097152},
                      {"resident_kv_bytes", tokens * 2097152}};
        records.push_back(r);
        scores.push_back({cell.key, id, turn, "qa_f1", "none", tokens == 900 ? .5 : tokens / 1000});
      }
      hand.store().add_records(records, scores);
    }
  }
  const std::vector<Plot> plots = cost_plots(Results(hand.store(), "hand"));
  ASSERT_EQ(plots.size(), 2u) << "all bytes are on the device: one plot of them";
  EXPECT_EQ(plots[1].title, "keys and values when the answer begins (MiB)");
  EXPECT_EQ(plots[1].series[1].points[0].x, 128);
  EXPECT_EQ(plots[0].title, "tokens that a decode step reads");
  ASSERT_EQ(plots[0].series.size(), 2u);
  EXPECT_EQ(plots[0].series[1].name, "snapkv");
  ASSERT_EQ(plots[0].series[1].points.size(), 2u);
  EXPECT_EQ(plots[0].series[1].points[0].x, 64);
  EXPECT_NEAR(plots[0].series[1].points[0].mean, 6.4, 1e-9);
  ASSERT_EQ(plots[0].front.size(), 2u) << "full scores less than snapkv:budget=512";
  EXPECT_EQ(plots[0].front[1].x, 512);
  EXPECT_EQ(plots[0].notes,
            Names{"Dotted: the Pareto front of the means: snapkv:budget=64, snapkv:budget=512."});
}

}  // namespace
}  // namespace turnbench::test
