// The HTML page: its structure, and that its numbers are those of the Markdown report.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>

#include "common/text.h"
#include "hand_made_store.h"
#include "reports/html/views.h"
#include "reports/render.h"

namespace turnbench {
namespace {

using test::HandMadeStore;

/// Two experiments with the same cells; dialogues differ, and one failed.
class HtmlPage : public testing::Test {
 protected:
  HtmlPage() {
    StoredExperiment other;
    other.name = "other.1";
    other.environment = environment_card();
    other.manifest = test::kManifest;
    other.manifest.replace(other.manifest.find("\"hand\""), 6, "\"other.1\"");
    other.directory = "/";
    other.models = {{"model-hash", "a model"}};
    other.cells = hand_.store().cells("hand");
    hand_.store().add_experiment(other);
    fill(hand_);
  }

  static void fill(HandMadeStore& store) {
    int i = 0;
    for (const Cell& cell : store.store().cells("hand")) {
      for (const char* id : {"a", "b", "c", "d"}) {
        ++i;
        store.add(cell.key, id, .1 * (i % 7), .1 * (i % 11), 100 + i);
      }
    }
  }

  std::string page(const std::vector<std::string>& experiments) const {
    return render_html(hand_.store(), PageRequest{experiments});
  }

  mutable HandMadeStore hand_;
};

/// All matches of the first group.
std::vector<std::string> found(const std::string& text, const std::string& pattern) {
  std::vector<std::string> out;
  const std::regex regex(pattern);
  for (std::sregex_iterator i(text.begin(), text.end(), regex), end; i != end; ++i)
    out.push_back((*i)[1]);
  return out;
}

/// A page without the views that are not shown at first.
std::string first_views(std::string html) {
  const std::string end = "</template>";
  for (std::size_t at = 0; (at = html.find("<template", at)) != std::string::npos;)
    html.erase(at, html.find(end, at) + end.size() - at);
  return html;
}

/// The rows of the tables in Markdown, or of methods or turns in HTML.
std::vector<std::string> markdown_rows(const std::string& report) {
  std::vector<std::string> out;
  for (const std::string& line : split(report, "\n")) {
    const bool is_head = line.starts_with("| method") || line.starts_with("| turn");
    if (line.starts_with("| ") && !line.starts_with("| ---") && !is_head) out.push_back(line);
  }
  return out;
}
std::vector<std::string> html_rows(const std::string& html) {
  return found(html, "<tr>(<th scope=\"row\"[^\\n]*)</tr>");
}

/// The numbers of a text, in order.
std::vector<std::string> numbers(const std::string& text) {
  return found(std::regex_replace(text, std::regex("<[^>]*>"), " "), "([-+]?[0-9]+(?:\\.[0-9]+)?)");
}

/// Expects the rows of a report's tables, with the same numbers.
void expect_numbers(const std::string& html, const Results& results) {
  const std::vector<std::string> rows = markdown_rows(render_markdown(results)),
                                 shown = html_rows(html);
  ASSERT_EQ(shown.size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::vector<std::string> want = numbers(rows[i]), got = numbers(shown[i]);
    // Markdown shows no counters in tables whose rows are no methods.
    ASSERT_GE(got.size(), want.size()) << rows[i];
    EXPECT_TRUE(std::equal(want.begin(), want.end(), got.begin())) << rows[i] << "\n" << shown[i];
  }
}

TEST_F(HtmlPage, NumbersAreThoseOfMarkdown) {
  expect_numbers(first_views(page({"hand"})), Results(hand_.store(), "hand"));
}

// A view with another baseline has the numbers of a manifest that names it.
TEST_F(HtmlPage, ViewsHaveTheNumbersOfOtherBaselines) {
  std::string manifest = test::kManifest, views;
  const std::string full = "\"difference_to\": \"full\"", snapkv = "\"snapkv:budget=64\"";
  for (std::size_t at; (at = manifest.find(full)) != std::string::npos;)
    manifest.replace(at, full.size(), "\"difference_to\": " + snapkv);
  manifest.replace(manifest.find("[\"dataset\", \"position\"]"), 23,
                   "[\"dataset\", \"position\"], \"difference_to\": " + snapkv);
  HandMadeStore other(manifest);
  fill(other);
  const std::string html = page({"hand"}), start = "data-baseline=\"snapkv:budget=64\">";
  for (std::size_t at = 0; (at = html.find(start, at)) != std::string::npos; ++at)
    views += html.substr(at, html.find("</template>", at) - at);
  expect_numbers(views, Results(other.store(), "hand"));
}

// A view with another metric has the numbers of a report with --metric.
TEST_F(HtmlPage, ViewsHaveTheNumbersOfOtherMetrics) {
  int i = 0;
  std::vector<ScoreValue> scores;
  for (const Cell& cell : hand_.store().cells("hand")) {
    for (const char* id : {"a", "b", "c", "d"}) {
      for (int turn : {0, 1})
        scores.push_back({cell.key, id, turn, "rouge_l", "none", .1 * (++i % 9)});
    }
  }
  hand_.store().put_scores(scores, false);
  const std::string html = page({"hand"});
  std::string views;
  for (const char* baseline : {"full", "", "full"}) {
    const std::string start =
        fmt::format("<template data-metric=\"rouge_l\" data-baseline=\"{}\">", baseline);
    const std::size_t table = found(views, "(<table)").size() + 1;
    const std::size_t from = html.find(fmt::format("id=\"x-hand-table-{}\"", table));
    const std::size_t at = html.find(start, from);
    ASSERT_NE(at, std::string::npos) << start;
    views += html.substr(at, html.find("</template>", at) - at);
  }
  expect_numbers(views, Results(hand_.store(), "hand", {"rouge_l", ""}));
}

TEST_F(HtmlPage, LeavesOutViewsBeyondTheBudget) {
  const std::vector<MetricResults> metrics = results_by_metric(hand_.store(), "hand", {});
  const Pivot shown = make_pivot(metrics[0].results, metrics[0].results.tables()[0]);
  const auto views = [&](ViewBudget budget) {
    return table_views_html(metrics, 0, shown, "heading", budget);
  };
  EXPECT_EQ(found(views({}), "(<template)").size(), 3u) << "none, and two other baselines";
  EXPECT_EQ(views({}).find("left out"), std::string::npos);
  const std::string untested = views({.differences = 47}), short_of = views({.bytes = 100});
  EXPECT_EQ(found(untested, "(<template)").size(), 1u);
  EXPECT_NE(untested.find("2 other views are left out"), std::string::npos);
  EXPECT_EQ(found(short_of, "(<template)").size(), 0u);
  EXPECT_NE(short_of.find("3 other views are left out"), std::string::npos);
}

TEST_F(HtmlPage, EveryLinkHasOneTarget) {
  for (const auto& experiments :
       {std::vector<std::string>{"hand"}, std::vector<std::string>{"hand", "other.1"}}) {
    const std::string html = page(experiments);
    const std::vector<std::string> ids = found(html, " id=\"([^\"]*)\"");
    const std::set<std::string> unique(ids.begin(), ids.end());
    EXPECT_EQ(unique.size(), ids.size());
    for (const std::string& target : found(html, " href=\"#([^\"]*)\""))
      EXPECT_TRUE(unique.contains(target)) << target;
    for (const std::string& heading : found(html, " aria-labelledby=\"([^\"]*)\""))
      EXPECT_TRUE(unique.contains(heading)) << heading;
    EXPECT_TRUE(found(html, "((?:href|src)=\"[^#])").empty()) << "nothing outside of the file";
    EXPECT_EQ(found(html, "(<h1)").size(), 1u);
  }
}

TEST_F(HtmlPage, HasAnIndexOfSeveralExperiments) {
  const std::string html = page({"hand", "other.1"});
  EXPECT_NE(html.find("<title>2 experiments</title>"), std::string::npos);
  EXPECT_NE(html.find("<a href=\"#x-hand\">hand</a>"), std::string::npos);
  EXPECT_NE(html.find("<a href=\"#x-other.1\">other.1</a>"), std::string::npos);
  EXPECT_NE(html.find("<td><data value=\"48\">48</data> of 48</td>"), std::string::npos);
  EXPECT_EQ(page({"hand"}).find("id=\"experiments\""), std::string::npos);
}

TEST_F(HtmlPage, TablesAndChartsAreAccessible) {
  const std::string html = first_views(page({"hand", "other.1"}));
  const std::size_t tables = found(html, "(<table)").size();
  EXPECT_EQ(tables, 7u);
  EXPECT_EQ(found(html, "(<caption>[^<]+<)").size(), tables);
  EXPECT_EQ(found(html, "(<th scope=\"(?:row|col|colgroup)\")").size(),
            found(html, "(<th )").size());
  const std::size_t rows = found(html, "(<svg class=\"lanes\")").size();
  // By position: three methods over all and each of two datasets; distributions of three methods;
  // the tables "Each" and "Turns".
  EXPECT_EQ(rows, 2u * (3 * 3 + 3 + 3 + 2));
  EXPECT_EQ(found(html, "(<title>[^<]+</title><desc>[^<]+: [0-9.]+[^<]+</desc>)").size(), rows);
}

TEST_F(HtmlPage, ColumnsOfTwoDimensionsHaveTwoHeads) {
  const std::string html = page({"hand"});
  for (const char* dataset : {"tiny-fact", "tiny-hop"}) {
    EXPECT_NE(html.find(std::string("<th scope=\"colgroup\" class=\"group\" colspan=\"2\">") +
                        dataset + "</th>"),
              std::string::npos);
  }
  EXPECT_NE(html.find("<tr><th scope=\"col\" class=\"group\">begin</th><th scope=\"col\">end</th>"),
            std::string::npos);
}

// A shortened label has the whole label as its title.
TEST_F(HtmlPage, LabelsAreShortened) {
  const std::string html = page({"hand"});
  EXPECT_NE(html.find("<th scope=\"row\" class=\"label\" title=\"snapkv:budget=64\">snapkv</th>"),
            std::string::npos);
  EXPECT_NE(html.find("<th scope=\"row\" class=\"label\">full</th>"), std::string::npos);
  EXPECT_NE(html.find("Not shown in labels: budget=64 of snapkv."), std::string::npos);
}

}  // namespace
}  // namespace turnbench
