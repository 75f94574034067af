// The HTML page: its structure, and that its numbers are those of the Markdown report.

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>

#include "common/text.h"
#include "hand_made_store.h"
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
    int i = 0;
    for (const Cell& cell : hand_.store().cells("hand")) {
      for (const char* id : {"a", "b", "c", "d"}) {
        ++i;
        hand_.add(cell.key, id, .1 * (i % 7), .1 * (i % 11), 100 + i);
      }
    }
  }

  std::string page(const std::vector<std::string>& experiments) const {
    return render_html(hand_.store(), experiments);
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

/// The numbers of a text, in order.
std::vector<std::string> numbers(const std::string& text) {
  return found(std::regex_replace(text, std::regex("<[^>]*>"), " "), "([-+]?[0-9]+(?:\\.[0-9]+)?)");
}

TEST_F(HtmlPage, NumbersAreThoseOfMarkdown) {
  const Results results(hand_.store(), "hand");
  std::vector<std::string> rows;
  for (const std::string& line : split(render_markdown(results), "\n")) {
    if (line.starts_with("| ") && !line.starts_with("| ---")) rows.push_back(line);
  }
  std::erase_if(rows, [](const std::string& row) {
    return row.starts_with("| method") || row.starts_with("| turn");
  });
  const std::vector<std::string> shown =
      found(render_html(results), "<tr>(<th scope=\"row\"[^\\n]*)</tr>");
  ASSERT_EQ(shown.size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::vector<std::string> want = numbers(rows[i]), got = numbers(shown[i]);
    // Markdown shows no counters in tables whose rows are no methods.
    ASSERT_GE(got.size(), want.size()) << rows[i];
    EXPECT_TRUE(std::equal(want.begin(), want.end(), got.begin())) << rows[i] << "\n" << shown[i];
  }
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
  const std::string html = page({"hand", "other.1"});
  const std::size_t tables = found(html, "(<table)").size();
  EXPECT_EQ(tables, 7u);
  EXPECT_EQ(found(html, "(<caption>[^<]+<)").size(), tables);
  EXPECT_EQ(found(html, "(<th scope=\"(?:row|col|colgroup)\")").size(),
            found(html, "(<th )").size());
  const std::size_t rows = found(html, "(<svg class=\"lanes\")").size();
  EXPECT_EQ(rows, 2u * 3 * 3);
  EXPECT_EQ(found(html, "(<title>[^<]+</title><desc>begin: [0-9.]+ \\[[^<]+</desc>)").size(), rows);
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

TEST_F(HtmlPage, BestMeansAreMarked) {
  const Results results(hand_.store(), "hand");
  const Pivot p = make_pivot(results, results.tables()[0]);
  double best = 0;
  for (const auto& row : p.entries) best = std::max(best, row[0]->estimate.mean);
  const std::string html = page({"hand"});
  const std::vector<std::string> marked =
      found(html, "<td class=\"[a-z ]*best\"[^>]*><data value=\"([^\"]*)\"");
  ASSERT_FALSE(marked.empty());
  EXPECT_EQ(std::stod(marked.front()), best);
}

}  // namespace
}  // namespace turnbench
