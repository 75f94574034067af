// Tables of a store that is filled by hand.

#include "reports/pivot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "common/json.h"
#include "common/text.h"
#include "hand_made_store.h"
#include "reports/notes.h"
#include "reports/render.h"

namespace turnbench {
namespace {

using test::HandMadeStore;

const std::string kSnap = "snapkv:budget=64", kStream = "streamingllm";

/// full is complete.  snapkv is complete except for one failed dialogue.  streamingllm failed on
/// one dataset, and ran two dialogues of the other.
class Tables : public testing::Test {
 protected:
  Tables() {
    const auto add = [&](const std::string& dataset, const std::string& position,
                         const std::string& method,
                         const std::vector<std::pair<double, double>>& s) {
      const char* ids[] = {"a", "b", "c", "d"};
      for (std::size_t i = 0; i < s.size(); ++i)
        hand_.add(HandMadeStore::key(dataset, position, method), ids[i], s[i].first, s[i].second,
                  method == "full" ? 200 : 64);
    };
    add("tiny-fact", "begin", "full", {{1, 1}, {1, 0}, {0, 0}, {1, 1}});   // 5/8
    add("tiny-fact", "end", "full", {{1, 1}, {1, 1}, {1, 1}, {1, 0}});     // 7/8
    add("tiny-hop", "begin", "full", {{.5, 0}, {0, 0}, {.5, 1}, {1, 0}});  // 3/8
    add("tiny-hop", "end", "full", {{1, 0}, {0, 1}, {1, 0}, {0, 1}});      // 4/8
    add("tiny-fact", "begin", kSnap, {{1, 0}, {1, 0}, {0, 0}, {1, 0}});    // 3/8
    add("tiny-fact", "end", kSnap, {{1, 1}, {1, 1}, {1, 1}, {1, 1}});      // 8/8
    add("tiny-hop", "begin", kSnap, {{.5, 0}, {0, 0}, {.5, 0}});           // 1/6; d failed
    hand_.add_failure(HandMadeStore::key("tiny-hop", "begin", kSnap), "d");
    add("tiny-hop", "end", kSnap, {{0, 0}, {0, 1}, {0, 0}, {0, 1}});  // 2/8
    add("tiny-fact", "begin", kStream, {{0, 0}, {1, 0}});             // 1/4; the others are pending
    for (const char* id : {"a", "b", "c", "d"})
      hand_.add_failure(HandMadeStore::key("tiny-fact", "end", kStream), id);
  }

  Pivot table(std::size_t i) const {
    const Results results(hand_store(), "hand");
    return make_pivot(results, results.tables()[i]);
  }
  std::string csv_of(std::size_t i) const {
    Results results(hand_store(), "hand");
    results.keep_table(i);
    return render_csv(results);
  }
  const Store& hand_store() const { return const_cast<HandMadeStore&>(hand_).store(); }

  HandMadeStore hand_;
};

TEST_F(Tables, MeansAreThoseOfThePaper) {
  const Pivot p = table(1);
  ASSERT_EQ(p.rows, (std::vector<std::vector<std::string>>{{"full"}, {kSnap}, {kStream}}));
  ASSERT_EQ(p.columns, (std::vector<std::vector<std::string>>{{"tiny-fact", "begin"},
                                                              {"tiny-fact", "end"},
                                                              {"tiny-hop", "begin"},
                                                              {"tiny-hop", "end"}}));
  const double want[2][4] = {{5 / 8., 7 / 8., 3 / 8., 4 / 8.}, {3 / 8., 1, 1 / 6., 2 / 8.}};
  for (std::size_t r = 0; r < 2; ++r) {
    for (std::size_t c = 0; c < 4; ++c) {
      ASSERT_TRUE(p.entries[r][c]);
      EXPECT_NEAR(p.entries[r][c]->estimate.mean, 100 * want[r][c], 1e-9) << r << " " << c;
    }
  }
  EXPECT_EQ(p.entries[0][0]->estimate.turns, 8);
  EXPECT_EQ(p.entries[1][2]->estimate.turns, 6);
  EXPECT_EQ(p.entries[0][0]->estimate.dialogues, 4);
  EXPECT_EQ(p.counter_text(0, "kv_tokens"), "200");
  EXPECT_EQ(p.entries[0][0]->published, 60.5);
  EXPECT_FALSE(p.entries[0][1]->published);
}

// All datasets have the same weight.  Differences use the dialogues that have scores of both
// methods.
TEST_F(Tables, DifferencesArePaired) {
  const Pivot p = table(0);
  EXPECT_NEAR(p.entries[0][0]->estimate.mean, 100 * (5 / 8. + 3 / 8.) / 2, 1e-9);
  EXPECT_NEAR(p.entries[1][0]->estimate.mean, 100 * (3 / 8. + 1 / 6.) / 2, 1e-9);
  EXPECT_FALSE(p.entries[0][0]->differences[0]) << "the baseline itself";
  // tiny-fact: 3/8 - 5/8.  tiny-hop without d: 1/6 - 2/6.
  EXPECT_NEAR(p.entries[1][0]->differences[0]->estimate.mean, 100 * (-2 / 8. - 1 / 6.) / 2, 1e-9);
  EXPECT_NEAR(p.entries[1][1]->differences[0]->estimate.mean, 100 * (1 / 8. - 2 / 8.) / 2, 1e-9);
  EXPECT_FALSE(p.entries[2][0]->differences[0]) << "of one dataset there is nothing to compare";
  EXPECT_FALSE(p.entries[2][1]->differences[0]);
}

TEST_F(Tables, ByTurn) {
  const Pivot p = table(2);
  ASSERT_EQ(p.rows, (std::vector<std::vector<std::string>>{{"1"}, {"2"}}));
  EXPECT_NEAR(p.entries[0][0]->estimate.mean, 100 * (3 / 4. + 1 + 2 / 4. + 2 / 4.) / 4, 1e-9);
  EXPECT_NEAR(p.entries[1][0]->estimate.mean, 100 * (2 / 4. + 3 / 4. + 1 / 4. + 2 / 4.) / 4, 1e-9);
  EXPECT_EQ(p.entries[1][2]->missing,
            (std::vector<std::string>{"tiny-fact, end (failed)", "tiny-hop, begin (not run)",
                                      "tiny-hop, end (not run)"}));
}

TEST_F(Tables, ByTurnCountTheDialoguesOfEachTurn) {
  const std::string all = "Not all dialogues have all turns: turn 2: ";
  const auto note = [&](std::size_t i) {
    const Pivot p = table(i);
    const auto found = std::find_if(p.notes.begin(), p.notes.end(),
                                    [&](const std::string& n) { return n.starts_with(all); });
    return found == p.notes.end() ? "" : found->substr(all.size());
  };
  EXPECT_EQ(note(2), "");
  hand_.execute("UPDATE dialogue SET turns = 1 WHERE id = 'c'");
  EXPECT_EQ(note(2), "6 of 8 dialogues.");
  hand_.execute("UPDATE dialogue SET turns = 1 WHERE dataset = 'tiny-hop'");
  EXPECT_EQ(note(2), "3 of 8 dialogues, none of tiny-hop.");
  EXPECT_EQ(note(0), "");
}

TEST(Differences, ToABaselineWithoutResultsAreNamed) {
  HandMadeStore hand;
  for (const char* dataset : {"tiny-fact", "tiny-hop"}) {
    for (const char* id : {"a", "b"}) {
      for (const char* position : {"begin", "end"})
        hand.add(HandMadeStore::key(dataset, position, kSnap), id, 1, 0);
      hand.add(HandMadeStore::key(dataset, "end", "full"), id, 1, 1);
      hand.add_failure(HandMadeStore::key(dataset, "begin", "full"), id);
    }
  }
  const Results results(hand.store(), "hand");
  const Pivot p = make_pivot(results, results.tables()[0]);
  EXPECT_TRUE(p.entries[1][1]->differences[0]);
  EXPECT_FALSE(p.entries[1][0]->differences[0]);
  const std::string note = "No difference to full where it has no result: " + kSnap + ", begin.";
  EXPECT_NE(std::find(p.notes.begin(), p.notes.end(), note), p.notes.end()) << join(p.notes, "\n");
}

TEST(Failures, CountInTablesOfTimesAndBytes) {
  std::string manifest = test::kManifest;
  const std::string table = R"({"title": "Each")";
  manifest.replace(manifest.find(table), table.size(), R"({"value": "step", "title": "Each")");
  HandMadeStore hand(manifest);
  const std::string cell = HandMadeStore::key("tiny-fact", "begin", "full");
  hand.add(cell, "a", 1, 1, 100, 0.5);
  hand.add(cell, "b", 1, 1, 100, 0.5);
  hand.add_failure(cell, "c");
  hand.add_failure(HandMadeStore::key("tiny-fact", "end", "full"), "a");
  const Results results(hand.store(), "hand");
  const Pivot p = make_pivot(results, results.tables()[1]);
  EXPECT_EQ(p.entries[0][0]->estimate.dialogues, 2);
  EXPECT_EQ(p.entries[0][0]->estimate.failed, 2) << "turns";
  EXPECT_EQ(p.entries[0][1]->estimate.failed, 2) << "without any time";
}

// Tables may have different baselines or none; each names its own.
TEST(Markdown, NamesWhatDifferencesAreTo) {
  std::string manifest = test::kManifest;
  const std::string first = R"(, "difference_to": "full"},)";
  manifest.replace(manifest.find(first), first.size(), R"(, "difference_to": "streamingllm"},)");
  HandMadeStore hand(manifest);
  for (const Cell& cell : hand.store().cells("hand")) hand.add(cell.key, "a", 1, 1);
  const Results results(hand.store(), "hand");
  const char* means[] = {
      "Means over dataset (tiny-fact, tiny-hop), turn (1, 2). Differences to streamingllm.",
      "Means over turn (1, 2).",
      "Means over dataset (tiny-fact, tiny-hop), position (begin, end). Differences to full."};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(make_pivot(results, results.tables()[i]).basis_note(true),
              std::string("Dialogues: 1 of each of 2 datasets. ") + means[i]);
  }
  const std::string md = render_markdown(results);
  EXPECT_NE(md.find("; in parentheses the paired difference to the method that is named under the "
                    "table, with "),
            std::string::npos)
      << md;
}

// A mean with a missing part is blank, and a note names the part.
TEST_F(Tables, MeansWithMissingPartsAreBlank) {
  const Pivot p = table(0);
  ASSERT_TRUE(p.entries[2][0]);
  EXPECT_FALSE(p.entries[2][0]->estimate.known) << "streamingllm, begin: one of two datasets";
  EXPECT_EQ(p.entries[2][0]->missing, std::vector<std::string>{"tiny-hop (not run)"});
  EXPECT_EQ(p.entries[2][0]->estimate.turns, 4);
  EXPECT_FALSE(p.entries[2][1]->estimate.known) << "streamingllm, end: the only one failed";
  EXPECT_TRUE(p.entries[2][1]->missing.empty()) << "nothing is there that could be averaged";
  EXPECT_TRUE(p.entries[1][0]->estimate.known) << "a dialogue is missing, but no dataset";
  const std::string note =
      "No mean (–) where a part of it is missing: streamingllm, begin lacks tiny-hop (not run).";
  EXPECT_EQ(p.notes, std::vector<std::string>{note});
  // The same if all dialogues of the part failed.
  for (const char* id : {"a", "b", "c", "d"})
    hand_.add_failure(HandMadeStore::key("tiny-hop", "begin", kStream), id);
  const Results results(hand_.store(), "hand");
  EXPECT_EQ(make_pivot(results, results.tables()[0]).entries[2][0]->missing,
            std::vector<std::string>{"tiny-hop (failed)"});
  for (const char* format : {"md", "tex", "html", "json", "svg"})
    EXPECT_NE(render_report(results, {format, false}), "") << format;
  EXPECT_NE(csv_of(0), "");
}

// Predictions that were imported for one dataset give no mean over both.
TEST_F(Tables, ADatasetWithoutACellIsMissingToo) {
  hand_.add_cell("tiny-fact", "begin", "imported:theirs");
  hand_.add(HandMadeStore::key("tiny-fact", "begin", "imported:theirs"), "a", 1, 1);
  const Pivot mean = table(0), each = table(1);
  ASSERT_EQ(mean.rows.back(), std::vector<std::string>{"imported:theirs"});
  EXPECT_FALSE(mean.entries[3][0]->estimate.known);
  EXPECT_EQ(mean.entries[3][0]->missing, std::vector<std::string>{"tiny-hop (not there)"});
  EXPECT_FALSE(mean.entries[3][1]);
  EXPECT_EQ(each.entries[3][0]->estimate.mean, 100);
}

// Failed and pending dialogues are shown in every format.
TEST_F(Tables, MissingValuesAreVisible) {
  const Results results(hand_store(), "hand");
  EXPECT_EQ(results.pending(), 2u + 4) << "two of one dataset, and all of another";
  EXPECT_EQ(results.failures().size(), 10u);
  const std::string lack = "streamingllm, begin lacks tiny-hop (not run)";
  const std::string partial = "Partial: tiny-fact 2 to 4 of 4, tiny-hop 0 to 4 of 4 dialogues.";
  const std::string md = render_markdown(results);
  EXPECT_NE(md.find("| streamingllm | – | failed (8) | 64 |"), std::string::npos) << md;
  EXPECT_NE(md.find("\nNo mean (–) where a part of it is missing: " + lack), std::string::npos)
      << md;
  EXPECT_NE(md.find("| failed (8) | – | – |"), std::string::npos) << "a failed and two open cells";
  EXPECT_NE(md.find("2 failed"), std::string::npos) << "one dialogue of many";
  EXPECT_NE(md.find("Dialogues that have not run in every cell yet: 6;"), std::string::npos);
  EXPECT_NE(md.find(partial), std::string::npos) << md;
  EXPECT_NE(md.find("10 records failed"), std::string::npos);

  const std::string csv = csv_of(0);
  EXPECT_NE(csv.find("method,begin,begin low,begin high,begin n,begin turns,begin failed,"
                     "begin pending,begin missing,begin minus full,begin minus full low,"
                     "begin minus full high,begin minus full p,begin minus full p adjusted,end,"),
            std::string::npos)
      << csv;
  EXPECT_NE(csv.find("\nstreamingllm,,,,2,4,0,6,tiny-hop (not run),,,,,,,,,0,0,8,4,,,,,,,"),
            std::string::npos)
      << csv;

  const std::string each = csv_of(1);
  EXPECT_NE(each.find(",,,,0,0,0,4,not run,,,,,,0,0,0,4,not run,,,"), std::string::npos) << each;

  const std::string lines = render_csv_long(results);
  EXPECT_NE(lines.find("tiny,tiny-fact,end,streamingllm,reprefill,own,qa_f1,,,,0,8,,0,0,0,,,,,,"),
            std::string::npos)
      << lines;
  EXPECT_NE(lines.find("tiny,tiny-hop,end,streamingllm,reprefill,own,qa_f1,,,,0,0,,0,4,0,,,,,,"),
            std::string::npos)
      << lines;

  const std::string html = render_html(results);
  EXPECT_NE(html.find("<span class=\"none\">8 failed</span></td>"), std::string::npos);
  EXPECT_NE(html.find("<td title=\"missing: tiny-hop (not run)\" data-cells="), std::string::npos);
  for (const std::string& text :
       {std::string("Dialogues that have not run in every cell yet: 6;"), lack, partial})
    EXPECT_NE(html.find(text), std::string::npos) << text;
  EXPECT_NE(html.find("needs &lt;more&gt; memory"), std::string::npos);

  const std::string tex = render_latex(results);
  EXPECT_NE(tex.find("streamingllm & -- & failed (8) \\\\"), std::string::npos) << tex;
  EXPECT_NE(tex.find("failed (8) & -- & -- \\\\"), std::string::npos) << tex;
  EXPECT_NE(tex.find("\\multicolumn{2}{c}{tiny-fact}"), std::string::npos) << tex;
  for (const std::string& text : {lack, partial})
    EXPECT_NE(tex.find(text), std::string::npos) << text;

  const Json json = Json::parse(render_json(results));
  for (const Json& cell : json["cells"]) {
    const bool stream = cell["method"] == kStream, hop = cell["dataset"] == "tiny-hop",
               end = cell["position"] == "end";
    EXPECT_EQ(cell["mean"].is_null(), stream && (hop || end));
    EXPECT_EQ(cell["failed"], stream && !hop && end                    ? 8
                              : cell["method"] == kSnap && hop && !end ? 2
                                                                       : 0);
    EXPECT_EQ(cell["pending"], !stream ? 0 : hop ? 4 : end ? 0 : 2);
    EXPECT_EQ(cell["turns"], 2 * cell["n"].get<int>());
  }
  EXPECT_NE(json["notes"].dump().find(partial), std::string::npos);

  const std::string svg = render_report(results, {"svg", false});
  for (const std::string& text : {lack, partial})
    EXPECT_NE(svg.find(text), std::string::npos) << text;
}

// A run with --limit stores only some dialogues; the protocol card has the number of all.
TEST(Partial, TablesAreMarkedAsPartial) {
  HandMadeStore hand(test::kManifest, "", {"full", kSnap, kStream},
                     R"({"dataset": {"name": "a dataset", "count": 8}})");
  for (const Cell& cell : hand.store().cells("hand")) {
    for (const char* id : {"a", "b", "c", "d"}) hand.add(cell.key, id, 1, 0);
  }
  const Results results(hand.store(), "hand");
  EXPECT_EQ(results.pending(), 2u * 4);
  const std::string partial = "Partial: tiny-fact 4 of 8, tiny-hop 4 of 8 dialogues.";
  for (const char* format : {"md", "tex", "html", "json", "svg"})
    EXPECT_NE(render_report(results, {format, false}).find(partial), std::string::npos) << format;
  Results first = results;
  first.keep_table(0);
  const std::string csv = render_csv(first);
  EXPECT_TRUE(
      csv.starts_with("method,begin,begin low,begin high,begin n,begin turns,begin failed,"
                      "begin pending,begin minus full,"))
      << csv;
  EXPECT_NE(csv.find(",8,16,0,8,"), std::string::npos) << csv;
  EXPECT_NE(join(warnings(results), "\n").find(partial), std::string::npos);
}

// Imported predictions do not change the tests of the other methods.
TEST(Families, ImportedPredictionsAreASeparateFamily) {
  HandMadeStore hand(test::kManifest, "");
  const char* ids[] = {"a", "b", "c", "d"};
  const auto fill = [&](const std::string& method, int right) {
    for (const char* dataset : {"tiny-fact", "tiny-hop"}) {
      for (const char* position : {"begin", "end"}) {
        for (int i = 0; i < 4; ++i)
          hand.add(HandMadeStore::key(dataset, position, method), ids[i], i < right, 0);
      }
    }
  };
  fill("full", 4);
  fill(kSnap, 1);
  fill(kStream, 2);
  const Results before(hand.store(), "hand");
  for (const char* dataset : {"tiny-fact", "tiny-hop"}) {
    for (const char* position : {"begin", "end"})
      hand.add_cell(dataset, position, "imported:theirs");
  }
  fill("imported:theirs", 0);
  const Results after(hand.store(), "hand");
  const Pivot alone = make_pivot(before, before.tables()[0]),
              beside = make_pivot(after, after.tables()[0]);
  for (std::size_t r = 1; r < 3; ++r) {
    for (std::size_t c = 0; c < 2; ++c) {
      EXPECT_EQ(beside.entries[r][c]->differences[0]->against_zero.adjusted,
                alone.entries[r][c]->differences[0]->against_zero.adjusted);
    }
  }
  EXPECT_TRUE(beside.entries[3][0]->differences[0]);
  EXPECT_TRUE(alone.notes.empty());
  ASSERT_EQ(beside.notes.size(), 1u);
  EXPECT_TRUE(beside.notes[0].starts_with("Imported predictions are a family of their own"));
  const std::vector<CellLine> cells = cell_lines(before, {}), more = cell_lines(after, {});
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!cells[i].differences[0]) continue;
    const auto same = std::find_if(more.begin(), more.end(), [&](const CellLine& line) {
      return line.cell.key == cells[i].cell.key;
    });
    EXPECT_EQ(same->differences[0]->against_zero.adjusted,
              cells[i].differences[0]->against_zero.adjusted);
  }
}

// Counters of methods with different budgets are shown as ranges, because their mean has no
// meaning.
TEST(Counters, AreRangesWhereARowHasSeveralMethods) {
  HandMadeStore hand(R"({"name": "hand", "models": ["tiny"], "datasets": ["tiny-fact", "tiny-hop"],
    "positions": ["begin", "end"], "methods": ["full", "snapkv:budget=64", "snapkv:budget=48"],
    "tables": [{"rows": ["method.name"], "columns": ["method.budget"]}, {"columns": ["position"]}]})",
                     "", {"full", kSnap, "snapkv:budget=48"});
  for (const Cell& cell : hand.store().cells("hand"))
    hand.add(cell.key, "a", 1, 0, cell.method == "full" ? 200 : cell.method == kSnap ? 64 : 48);
  const Results results(hand.store(), "hand");
  const Pivot sweep = make_pivot(results, results.tables()[0]);
  EXPECT_EQ(sweep.counter_text(0, "kv_tokens"), "200");
  EXPECT_EQ(sweep.counter_text(1, "kv_tokens"), "48–64");
  EXPECT_EQ(sweep.counter_text(1, "attended_tokens"), "") << "nothing was counted";
  const Pivot each = make_pivot(results, results.tables()[1]);
  EXPECT_EQ(each.counter_text(1, "kv_tokens"), "64");
  const std::string html = render_html(results);
  EXPECT_NE(html.find("<data value=\"48\">48–64</data>"), std::string::npos);
  EXPECT_NE(html.find("From–to where a row has several methods or histories."), std::string::npos);
}

// Two settings of a method have different rows in a sweep over budgets.
TEST(Variants, AreMethodsWithoutTheirBudgets) {
  const auto variant = [](const std::string& label) {
    Cell cell;
    cell.method = label;
    return variant_of(cell);
  };
  EXPECT_EQ(variant("full"), "full");
  EXPECT_EQ(variant("snapkv:budget=64"), "snapkv");
  EXPECT_EQ(variant("snapkv:budget=64,window=8"), "snapkv:window=8");
  EXPECT_EQ(variant("snapkv:window=8,budget=20%"), "snapkv:window=8");
  EXPECT_EQ(variant("flexprefill:min_budget=256"), "flexprefill:min_budget=256");
  EXPECT_EQ(variant("h2o:budget=64,gran=query_head+quest:budget=1/5"), "h2o:gran=query_head+quest");
  EXPECT_EQ(variant("a label"), "a label");
  HandMadeStore hand(R"({"name": "hand", "models": ["tiny"], "datasets": ["tiny-fact", "tiny-hop"],
    "positions": ["begin", "end"],
    "methods": ["full", "snapkv:budget=64", "snapkv:budget=64,window=8"],
    "tables": [{"rows": ["method.variant"], "columns": ["method.budget"]}]})",
                     "", {"full", kSnap, "snapkv:budget=64,window=8"});
  const Results results(hand.store(), "hand");
  const Pivot sweep = make_pivot(results, results.tables()[0]);
  EXPECT_EQ(sweep.rows,
            (std::vector<std::vector<std::string>>{{"full"}, {"snapkv"}, {"snapkv:window=8"}}));
}

// Counters average over all turns: a column that exists for one dataset only does not change its
// weight.
TEST(Counters, DoNotDependOnTheColumns) {
  HandMadeStore hand(R"({"name": "hand", "models": ["tiny"], "datasets": ["tiny-fact", "tiny-hop"],
    "positions": ["begin"], "methods": ["full"],
    "tables": [{"rows": ["method"]}, {"rows": ["method"], "columns": ["turn"]}]})",
                     "", {"full"});
  const std::string fact = HandMadeStore::key("tiny-fact", "begin", "full"),
                    hop = HandMadeStore::key("tiny-hop", "begin", "full");
  hand.add(fact, "a", 1, 0, 30);
  hand.add(hop, "a", 1, 0, 10);
  Record third;
  third.cell = hop;
  third.dialogue = "a";
  third.turn = 2;
  third.counters = {{"kv_tokens", 10}};
  const std::vector<Record> records = {third};
  const std::vector<ScoreValue> scores = {{hop, "a", 2, "qa_f1", "none", 1}};
  hand.store().add_records(records, scores);
  const Results results(hand.store(), "hand");
  for (const TableSpec& table : results.tables())
    EXPECT_EQ(make_pivot(results, table).counter_text(0, "kv_tokens"), "20");
}

// The entries of this row are means over two cells and over one.
TEST(Counters, AreMeansOverCellsAndNotOverEntries) {
  HandMadeStore hand(R"({"name": "hand", "models": ["tiny"], "datasets": ["tiny-fact", "tiny-hop"],
    "positions": ["begin", "end"], "methods": ["full"],
    "tables": [{"rows": ["method"]}, {"rows": ["method"], "columns": ["dataset"]}]})",
                     "", {"full"});
  hand.add(HandMadeStore::key("tiny-fact", "begin", "full"), "a", 1, 0, 30);
  hand.add(HandMadeStore::key("tiny-fact", "end", "full"), "a", 1, 0, 60);
  hand.add(HandMadeStore::key("tiny-hop", "begin", "full"), "a", 1, 0, 15);
  const Results results(hand.store(), "hand");
  for (const TableSpec& table : results.tables())
    EXPECT_EQ(make_pivot(results, table).counter_text(0, "kv_tokens"), "35");
}

// Forced answers are not decoded, so their tables have no counter of attended tokens.
TEST(Counters, WithoutAValueHaveNoColumn) {
  HandMadeStore hand(R"({"name": "hand", "models": ["tiny"], "datasets": ["tiny-fact", "tiny-hop"],
    "positions": ["begin"], "methods": ["full"], "tables": [{"rows": ["method"]}]})",
                     "", {"full"});
  hand.add(HandMadeStore::key("tiny-fact", "begin", "full"), "a", 1, 0, 30);
  const Results results(hand.store(), "hand");
  for (const std::string& text : {render_markdown(results), render_html(results)}) {
    EXPECT_NE(text.find("kept: tokens cached"), std::string::npos) << text;
    EXPECT_EQ(text.find("read: tokens"), std::string::npos) << text;
  }
  EXPECT_NE(render_markdown(results).find("| kept |"), std::string::npos);
  EXPECT_EQ(render_markdown(results).find("| read |"), std::string::npos);
}

TEST_F(Tables, CompleteRunsHaveNoRemarks) {
  HandMadeStore complete;
  for (const Cell& cell : complete.store().cells("hand")) {
    for (const char* id : {"a", "b", "c", "d"}) complete.add(cell.key, id, 1, 0);
  }
  const std::string md = render_markdown(Results(complete.store(), "hand"));
  EXPECT_EQ(md.find("failed"), std::string::npos) << md;
  EXPECT_EQ(md.find("not run"), std::string::npos) << md;
  EXPECT_EQ(md.find("Partial"), std::string::npos) << md;
  EXPECT_EQ(md.find("No mean"), std::string::npos) << md;
  EXPECT_NE(md.find("| full | 50.0 ["), std::string::npos) << md;
}

}  // namespace
}  // namespace turnbench
