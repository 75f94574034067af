// Tables with the published numbers next to the values, in the paper's order; and the warning of a
// smoke run.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/json.h"
#include "common/text.h"
#include "hand_made_store.h"
#include "harness/experiment/published.h"
#include "reports/notes.h"
#include "reports/number_text.h"
#include "reports/pivot.h"
#include "reports/render.h"
#include "tests/message_of.h"
#include "tests/temporary_directory.h"

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
  Pivot table(std::size_t i, double margin = 0) {
    const Results results(hand_.store(), "hand");
    return make_pivot(results, results.tables()[i], {.margin = margin});
  }

  std::string csv_of(std::size_t i) {
    Results results(hand_.store(), "hand");
    results.keep_table(i);
    return render_csv(results);
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

TEST_F(PublishedTable, NumbersBelongToEveryMatchingCell) {
  const Pivot p = table(0);
  const std::optional<double> none;
  const std::optional<double> want[3][4] = {
      {60.5, 30, 70, none},  // the printed mean is not the value of one dataset
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
  EXPECT_NE(render_latex(results).find("[paper 51.25, $-1.25$]"), std::string::npos);
  const std::vector<std::string> lines = split(csv_of(0), "\n");
  EXPECT_TRUE(lines[0].starts_with(
      "method,begin / tiny-fact,begin / tiny-fact low,begin / tiny-fact high,begin / tiny-fact n,"
      "begin / tiny-fact turns,begin / tiny-fact failed,begin / tiny-fact published,"
      "begin / tiny-fact difference,begin / tiny-fact note,"))
      << lines[0];
  EXPECT_TRUE(lines[1].starts_with("full,50.00,")) << lines[1];
  EXPECT_NE(lines[1].find(",4,8,0,60.50,-10.50,,50.00,"), std::string::npos) << lines[1];
  EXPECT_NE(lines[2].find(",4,8,0,,,,\"sinks: none"), std::string::npos) << lines[2];
}

TEST_F(PublishedTable, MarginsTestTheEquivalence) {
  const auto published = [](const Pivot& p) { return p.entries[0][1]->published_equivalence; };
  EXPECT_FALSE(published(table(1)));
  EXPECT_FALSE(table(1, 60).entries[2][0]->published_equivalence) << "no number";
  EXPECT_LT(published(table(1, 60)).value(), published(table(1, 2)).value());
  const Results results(hand_.store(), "hand");
  const Comparison options{.margin = 60};
  const std::string p = p_text(published(table(1, 60)).value());
  EXPECT_NE(render_markdown(results, options).find("[paper 51.25, -1.25, equivalence " + p + "]"),
            std::string::npos);
  EXPECT_NE(render_markdown(results, options).find("two one-sided tests, within 60 points"),
            std::string::npos);
  EXPECT_NE(render_latex(results, options).find(", equivalence "), std::string::npos);
  EXPECT_NE(render_html(results, options).find("(-1.25, equivalence "), std::string::npos);
  EXPECT_NE(render_json(results, options).find("\"published_p_equivalence\""), std::string::npos);
}

TEST_F(PublishedTable, NotesFollowTheTable) {
  EXPECT_EQ(table(0).notes,
            std::vector<std::string>{"The paper's number for full, end / tiny-fact: a, b | c"});
  EXPECT_EQ(table(1).notes, std::vector<std::string>{"The paper's number for full, end: mean"});
  const Results results(hand_.store(), "hand");
  const std::string note = "The paper's number for full, end / tiny-fact: a, b ";
  EXPECT_NE(render_markdown(results).find("\n" + note + "\\| c\n"), std::string::npos);
  EXPECT_NE(render_html(results).find(note + "| c</p>"), std::string::npos);
  EXPECT_NE(render_latex(results).find(note + "\\textbar{} c\\par}"), std::string::npos);
  EXPECT_NE(csv_of(0).find(",4,8,0,70.00,-20.00,\"a, b | c\",50.00,"), std::string::npos);
  EXPECT_NE(render_json(results).find("\"note\": \"a, b | c\""), std::string::npos);
}

TEST(Published, NumbersWithoutACellAndSeveralForOneAreNamed) {
  const std::string csv =
      "# a comment\nmethod,dataset,position,value\nfull,tiny-fact,begin,1\n"
      "full,tiny-fcat,begin,2\nsnapkv:budget=32 | quest,,end,3\nfull,,begin,4\n"
      "full,mean,begin,5\n";
  HandMadeStore hand(manifest(), csv);
  for (const Cell& cell : hand.store().cells("hand")) hand.add(cell.key, "a", 1, 0);
  const Results results(hand.store(), "hand");
  EXPECT_EQ(results.published_problems(),
            (std::vector<std::string>{
                "2 of 5 published numbers belong to no cell: line 4 (tiny-fcat, full, begin); "
                "line 5 (snapkv:budget=32 | quest, end).",
                "Two published numbers for one cell, of which the first counts: line 3 (tiny-fact, "
                "full, begin) and line 6 (full, begin)."}));
  for (const char* format : {"md", "html", "tex", "json"}) {
    EXPECT_NE(render_report(results, {format, false}).find("line 4 (tiny-fcat, full, begin)"),
              std::string::npos)
        << format;
  }
  std::string many = "method,value\n";
  for (int i = 0; i < 20; ++i) many += "m" + std::to_string(i) + ",1\n";
  HandMadeStore other(manifest(), many);
  const std::vector<std::string> problems = Results(other.store(), "hand").published_problems();
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_TRUE(problems[0].ends_with("; line 6 (m4); and 15 more.")) << problems[0];
}

// Published numbers are shown even if there is no value: nothing was judged or nothing has run.
TEST(Published, NumbersStandWhereValuesAreMissing) {
  const std::string tables = R"("tables": [
    {"value": "judge:quality", "rows": ["method"], "columns": ["position"]},
    {"rows": ["method"], "columns": ["position"]}])";
  std::string text = manifest();
  text.replace(text.find(kTables), kTables.size(), tables);
  HandMadeStore hand(text,
                     "method,position,metric,value\nfull,begin,judge:quality,4.25\n"
                     "snapkv:budget=64,end,,61.5\n");
  for (const Cell& cell : hand.store().cells("hand")) {
    if (cell.method == "snapkv:budget=64") continue;
    for (const char* id : {"a", "b", "c", "d"}) hand.add(cell.key, id, 1, 0);
  }
  const Results results(hand.store(), "hand");
  const Pivot judged = make_pivot(results, results.tables()[0]);
  ASSERT_TRUE(judged.entries[0][0]);
  EXPECT_FALSE(judged.entries[0][0]->estimate.known);
  EXPECT_EQ(judged.entries[0][0]->missing, std::vector<std::string>{"no value"});
  EXPECT_EQ(judged.entries[0][0]->published, 4.25);
  EXPECT_FALSE(judged.entries[0][1]) << "neither a value nor a number";
  EXPECT_TRUE(judged.notes.empty()) << judged.notes.front();
  const std::string md = render_markdown(results);
  EXPECT_NE(md.find("| – [paper 4.25] |  |"), std::string::npos) << md;
  EXPECT_NE(md.find("| – | – [paper 61.50] |"), std::string::npos) << md;
  EXPECT_NE(render_html(results).find("<span class=\"none\">–</span><span class=\"difference\">"
                                      "paper 4.25</span></td>"),
            std::string::npos);
  EXPECT_NE(render_latex(results).find("-- [paper 4.25]"), std::string::npos);
  Results first = results;
  first.keep_table(0);
  EXPECT_NE(render_csv(first).find(",0,0,0,0,no value,4.25,,"), std::string::npos)
      << render_csv(first);
  const Json json = parse_json(render_json(results), "json");
  EXPECT_EQ(json["tables"][0]["entries"][0]["published"], 4.25);
  EXPECT_TRUE(json["tables"][0]["entries"][0]["mean"].is_null());
}

// A value that a method cannot have is blank, not pending.
TEST(Values, ImpossibleValuesAreNotPending) {
  const std::string tables = R"("tables": [
    {"value": "hit_rate", "rows": ["method"], "columns": ["position"]}])";
  std::string text = manifest();
  text.replace(text.find(kTables), kTables.size(), tables);
  HandMadeStore hand(text, "");
  for (const Cell& cell : hand.store().cells("hand")) {
    if (cell.method == "full") hand.add(cell.key, "a", 1, 0);  // one of four dialogues
  }
  const Results results(hand.store(), "hand");
  const Pivot p = make_pivot(results, results.tables()[0]);
  EXPECT_FALSE(p.entries[0][0]) << "full, which has no device cache";
  ASSERT_TRUE(p.entries[1][0]);
  EXPECT_EQ(p.entries[1][0]->missing, std::vector<std::string>{"not run"});
}

TEST(Published, AByteOrderMarkIsSkipped) {
  const auto rows = parse_published("\xEF\xBB\xBFmethod,value\r\nfull,1.5\r\n", "p.csv");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].value, 1.5);
  EXPECT_EQ(rows[0].line, 2u);
  EXPECT_EQ(rows[0].dimensions.at("method"), std::vector<std::string>{"full"});
}

// Files of published numbers that are empty or give a number twice are errors.
TEST(Published, EmptyFilesAndDuplicatesAreRefused) {
  const test::TemporaryDirectory directory;
  Manifest manifest;
  manifest.path = directory.path("m.json");
  manifest.published = "p.csv";
  const auto message = [&](const std::string& csv) {
    directory.write("p.csv", csv);
    return test::message_of([&] { read_published(manifest); });
  };
  for (const char* csv : {"", "\xEF\xBB\xBF", "# nothing\n\n", "method,value\n"})
    EXPECT_TRUE(
        message(csv).ends_with("p.csv: found no numbers, expected a header and a line for "
                               "each"))
        << message(csv);
  const std::string second =
      "p.csv: line 4: found a second number for the value of line 2, expected one";
  for (const char* csv : {"method,position,value\nfull,end,1\nfull,begin,1\nfull,end,1\n",
                          "method,position,value\na | b,end,1\nfull,,1\nb | c,end | begin,2\n",
                          "method,dataset,value,note\nfull,mean,1,x\nfull,x,1,\nfull,mean,1,y\n"})
    EXPECT_TRUE(message(csv).ends_with(second)) << message(csv);
  EXPECT_EQ(message("method,dataset,value\nfull,mean,1\nfull,x,1\nfull,,1\n"), "no error");
}

// For times and bytes, lower is better, and they are printed in their units.
TEST(Values, LowerMayBeBetter) {
  std::string text = test::kManifest;
  const std::size_t tables = text.find("\"tables\"");
  text = text.substr(0, tables) +
         R"("alone": true, "max_new_tokens": 2, "tables": [
    {"value": "step", "rows": ["method"], "columns": ["position"], "difference_to": "full"},
    {"rows": ["method"], "columns": ["position"], "difference_to": "full"}]})";
  HandMadeStore hand(text, "");
  for (const Cell& cell : hand.store().cells("hand")) {
    const double step = cell.method == "full" ? .02 : cell.method == "streamingllm" ? .01 : .04;
    for (const char* id : {"a", "b", "c", "d"})
      hand.add(cell.key, id, cell.method == "full" ? 1 : 0, 0, 100, step);
  }
  const Results results(hand.store(), "hand");
  const Pivot p = make_pivot(results, results.tables()[0]);
  EXPECT_EQ(p.title, "median time between two tokens of an answer (ms)");
  EXPECT_NEAR(p.entries[1][0]->estimate.mean, 40, 1e-9);
  EXPECT_NEAR(p.entries[2][0]->differences[0]->estimate.mean, -10, 1e-9);
  const std::string html = render_html(results);
  EXPECT_NE(html.find("<td class=\"worse\" data-cells=\"1 7\"><data value=\"40\">40.00</data> "),
            std::string::npos)
      << "slower than full";
  EXPECT_NE(
      html.find("<td class=\"better best\" data-cells=\"2 8\"><data value=\"10\">10.00</data> "),
      std::string::npos)
      << "faster";
  EXPECT_NE(html.find("<td class=\"worse\" data-cells=\"1 7\"><data value=\"0\">0.0</data> "),
            std::string::npos)
      << "scores less";
  for (const char* side : {"more", "less"}) {
    EXPECT_NE(html.find(std::string("Shaded, p at most 0.05: ") + side + " than full (orange), "),
              std::string::npos)
        << side;
  }
  const std::string caption = "Means with 95% intervals over dialogues, scores x100; ";
  EXPECT_NE(html.find("Means with 95% intervals over dialogues; "), std::string::npos);
  EXPECT_NE(html.find("Means are x100."), std::string::npos) << "of the table of scores";
  EXPECT_NE(render_markdown(results).find(caption), std::string::npos);
  EXPECT_NE(
      render_markdown(results).find("| 40.00 [40.00, 40.00] (+20.00 [+20.00, +20.00], p 0.008) |"),
      std::string::npos);
}

TEST_F(PublishedTable, UsesTheTasksOfTheManifest) {
  const Results results(hand_.store(), "hand");
  for (const Cell& cell : results.cells())
    EXPECT_EQ(cell.task, cell.dataset == "tiny-hop" ? "two hops" : "qa");
}

TEST(SmokeWarning, AppearsInEveryFormat) {
  const std::string warning = "Smoke run: 100% stand-ins.";
  HandMadeStore hand(manifest("\"smoke\": \"" + warning + "\", "), kNumbers);
  const Results results(hand.store(), "hand");
  for (const char* format : {"md", "html", "json", "svg"})
    EXPECT_NE(render_report(results, {format, false}).find(warning), std::string::npos) << format;
  EXPECT_NE(render_latex(results).find("\\textbf{Smoke run: 100\\% stand-ins.}"),
            std::string::npos);
  EXPECT_EQ(warnings(results).front(), warning) << "beside a csv, which has no comments";
  EXPECT_TRUE(render_csv_long(results).starts_with("model,"));
  HandMadeStore other;
  EXPECT_EQ(render_json(Results(other.store(), "hand")).find("\"smoke\""), std::string::npos);
}

}  // namespace
}  // namespace turnbench
