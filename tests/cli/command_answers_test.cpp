// The output of `answers` equals the content of the store.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "common/text.h"
#include "tests/cli/small_store.h"
#include "tests/harness/store/store_dump.h"

namespace turnbench::test {
namespace {

class AnswersCommandOutput : public testing::Test {
 protected:
  AnswersCommandOutput() {
    directory_.write("small.csv", "method,value\nfull,1\n");
    const std::string manifest = replace_all(
        replace_all(small_manifest(), "\"max_new_tokens\": 4", "\"max_new_tokens\": 40"),
        "\"models\"", "\"probes\": [\"coverage:eta=0.1\"], \"models\"");
    const Finished run =
        run_program({"run", directory_.write("m.json", manifest), "--db", db_, "--quiet"});
    EXPECT_EQ(run.code, 0) << run.err;
  }

  std::vector<Json> lines(Arguments more = {}) const {
    more.insert(more.begin(), {"answers", db_});
    const Finished run = run_program(more);
    EXPECT_EQ(run.code, 0) << run.err;
    std::vector<Json> out;
    for (const std::string& line : run.lines()) out.push_back(parse_json(line, "a line"));
    return out;
  }
  std::vector<Json> where(const char* condition) const { return lines({"--where", condition}); }

  /// The lines of all records that satisfy a condition, selected by the test.
  std::vector<Json> picked(const std::function<bool(const Json&, const Json&)>& keep) const {
    std::vector<Json> out;
    for (const Json& line : lines()) {
      bool any = false;
      for (const Json& answer : line["answers"]) any |= keep(line, answer);
      if (any) out.push_back(line);
    }
    return out;
  }

  TemporaryDirectory directory_;
  std::string db_ = directory_.path("s.db");
};

TEST_F(AnswersCommandOutput, FiltersByDialogueAndPosition) {
  const std::vector<Json> all = lines();
  const std::string dialogue = all[0]["dialogue"];
  std::vector<Json> want;
  for (const Json& line : all) {
    if (line["dialogue"] == dialogue && line["position"] == "end") want.push_back(line);
  }
  ASSERT_EQ(want.size(), 2u);
  EXPECT_EQ(lines({"--dialogue", dialogue, "--position", "end"}), want);
  const auto refusal = [&](const char* option, const std::string& value) {
    const Finished run = run_program({"answers", db_, option, value});
    EXPECT_EQ(run.code, 2);
    return run.err;
  };
  EXPECT_NE(refusal("--dialogue", dialogue + "x").find("expected \"" + dialogue + "\""),
            std::string::npos);
  EXPECT_NE(refusal("--position", "middle")
                .find("--position: found \"middle\", expected one of: "
                      "begin, end"),
            std::string::npos);
}

TEST_F(AnswersCommandOutput, LimitsTheNumberOfTurns) {
  std::vector<Json> want = lines();
  want.resize(3);
  EXPECT_EQ(lines({"--limit", "3"}), want);
  EXPECT_EQ(lines({"--limit", "0"}), lines());
  EXPECT_EQ(lines({"--limit", "99"}), lines());
}

TEST_F(AnswersCommandOutput, ShowsTheContextThatTheModelRead) {
  expand_dialogues(db_);
  const Database store(db_, Database::Mode::kReadWrite);
  Statement s = store.prepare(
      "SELECT json_extract(json, '$.turns[' || ? || '].contexts[0].text') FROM dialogue "
      "WHERE id = ?");
  for (const Json& line : lines({"--context"})) {
    s << line["turn"].get<int>() - 1 << line["dialogue"].get<std::string>();
    ASSERT_TRUE(s.next());
    ASSERT_GT(s.text(0).size(), 0u);
    const std::vector<std::string> context = line["context"];
    EXPECT_NE(std::find(context.begin(), context.end(), s.text(0)), context.end());
    s.reset();
  }
  EXPECT_FALSE(lines()[0].contains("context"));
  const std::string md = run_program({"answers", db_, "--format", "md", "--context"}).out;
  EXPECT_NE(md.find("\n\n**Context:**\n\n> "), std::string::npos) << md.substr(0, 500);
}

TEST_F(AnswersCommandOutput, ListsTheRecordsOfEveryTurn) {
  const std::vector<Json> all = lines();
  ASSERT_EQ(all.size(), 8u) << "2 dialogues of 2 turns at 2 positions; a probe answers nothing";
  expand_dialogues(db_);
  const Database store(db_, Database::Mode::kReadWrite);
  Statement s = store.prepare(
      "SELECT r.answer, s.value * 100, r.prompt_tokens, json_array_length(r.answer_tokens), "
      "json_extract(d.json, '$.turns[' || r.turn || '].question'), "
      "json_extract(d.json, '$.turns[' || r.turn || '].references') FROM record r "
      "JOIN cell c ON c.key = r.cell JOIN experiment_cell e ON e.cell = c.key "
      "JOIN score s USING (cell, dialogue, turn) "
      "JOIN dialogue d ON d.dataset = c.dataset AND d.id = r.dialogue "
      "WHERE c.position = ? AND e.method = ? AND r.dialogue = ? AND r.turn = ?");
  std::set<std::string> places;
  double sum = 0;
  for (const Json& line : all) {
    EXPECT_EQ(line["model"], "tiny");
    EXPECT_EQ(line["dataset"], "tiny-fact");
    EXPECT_EQ(line["metric"], "qa_f1");
    EXPECT_EQ(line["postprocess"], "last_value");
    EXPECT_EQ(line["settings"], (Json{{"history", "reprefill"}, {"answers", "own"}}));
    ASSERT_EQ(line["answers"].size(), 2u);
    EXPECT_EQ(line["answers"][0]["method"], "full") << "in table order";
    for (const Json& answer : line["answers"]) {
      const std::string position = line["position"], method = answer["method"],
                        dialogue = line["dialogue"];
      places.insert(position + method + dialogue + line["turn"].dump());
      s << position << method << dialogue << line["turn"].get<int>() - 1;
      ASSERT_TRUE(s.next());
      EXPECT_EQ(answer["answer"], s.text(0));
      EXPECT_EQ(answer["score"], s.real(1));
      EXPECT_EQ(answer["prompt_tokens"], s.integer(2));
      EXPECT_EQ(answer["tokens"], s.integer(3));
      EXPECT_EQ(line["question"], s.text(4));
      EXPECT_EQ(line["references"], parse_json(s.text(5), "references"));
      EXPECT_EQ(answer["status"], "ok");
      EXPECT_TRUE(answer["error"].is_null());
      if (method == "full" && position == "end") sum += answer["score"].get<double>();
      s.reset();
    }
  }
  EXPECT_EQ(places.size(), 16u);
  const Json report = run_program({"report", db_, "--json"}).json();
  for (const Json& cell : report["cells"]) {
    if (cell["method"] != "full" || cell["position"] != "end") continue;
    EXPECT_NEAR(cell["mean"].get<double>(), sum / 4, 1e-9) << "as tables print it";
  }
}

TEST_F(AnswersCommandOutput, Filters) {
  const std::size_t all = lines().size();
  const auto score = [](const Json&, const Json& a) { return a["score"] < 50; };
  const auto not_full = [](const Json&, const Json& a) { return a["score"] != 100; };
  const auto second = [](const Json& line, const Json&) { return line["turn"] == 2; };
  const auto both = [](const Json& l, const Json& a) { return l["turn"] == 2 && a["score"] >= 50; };
  const auto tokens = [](const Json&, const Json& a) { return a["tokens"] > 3; };
  const auto prompt = [](const Json&, const Json& a) { return a["prompt_tokens"] >= 150; };
  EXPECT_EQ(where("score<50"), picked(score));
  EXPECT_EQ(where(" score != 100 "), picked(not_full));
  EXPECT_EQ(where("turn=2"), picked(second));
  EXPECT_EQ(where("answer_tokens > 3"), picked(tokens));
  EXPECT_EQ(where("prompt_tokens>=150"), picked(prompt));
  EXPECT_EQ(lines({"--where", "turn>1", "--where", "score>=50"}), picked(both));
  EXPECT_LT(picked(score).size(), all) << "a condition that all satisfy proves nothing";
  EXPECT_LT(picked(both).size(), all);
  EXPECT_FALSE(picked(both).empty());
  const Finished none = run_program({"answers", db_, "--where", "turn>2"});
  EXPECT_EQ(none.code, 0);
  EXPECT_EQ(none.out, "");
  EXPECT_EQ(none.err, db_ + ": no answered turn of small matches the options\n");
  for (const char* method : {"snapkv", "snapkv:budget=64,window=8", "snapkv:window=8,budget=64"}) {
    const std::vector<Json> some = lines({"--method", method});
    ASSERT_EQ(some.size(), all) << method;
    ASSERT_EQ(some[0]["answers"].size(), 1u) << method;
    EXPECT_EQ(some[0]["answers"][0]["method"], "snapkv:budget=64,window=8");
  }
  EXPECT_EQ(lines({"--method", "snapkv", "--method", "full", "--dataset", "tiny-fact"}), lines());
}

// Several conditions must hold for the same answer, not for the same turn.
TEST_F(AnswersCommandOutput, CombinesConditions) {
  execute(db_,
          "UPDATE score SET value = 1; UPDATE record SET prompt_tokens = 999 WHERE cell IN (SELECT "
          "cell FROM experiment_cell WHERE method = 'full'); UPDATE score SET value = 0 WHERE cell "
          "IN (SELECT cell FROM experiment_cell WHERE method LIKE 'snap%')");
  EXPECT_EQ(where("prompt_tokens=999").size(), 8u);
  EXPECT_EQ(where("score<50").size(), 8u);
  EXPECT_TRUE(lines({"--where", "prompt_tokens=999", "--where", "score<50"}).empty());
}

// A missing answer is shown as missing.
TEST_F(AnswersCommandOutput, ShowsFailedAndMissingAnswers) {
  const std::string cell = "cell = (SELECT cell FROM experiment_cell WHERE method LIKE 'snap%')";
  execute(db_,
          "UPDATE record SET status = 'out_of_memory', error = 'needs | more', answer = '', "
          "prompt_tokens = 0 WHERE turn = 0 AND " +
              cell + "; DELETE FROM score WHERE turn = 0 AND " + cell +
              "; PRAGMA foreign_keys=ON; DELETE FROM record WHERE turn = 1 AND " + cell);
  int failed = 0, pending = 0;
  for (const Json& line : lines()) {
    const Json& answer = line["answers"][1];
    if (answer["status"] == "ok") continue;
    EXPECT_TRUE(answer["score"].is_null());
    EXPECT_TRUE(answer["answer"].is_null());
    EXPECT_TRUE(answer["tokens"].is_null());
    const bool is_failed = answer["status"] == "out_of_memory";
    EXPECT_EQ(answer["error"], is_failed ? Json("needs | more") : Json(nullptr));
    EXPECT_EQ(answer["status"], is_failed ? "out_of_memory" : "pending");
    ++(is_failed ? failed : pending);
  }
  EXPECT_EQ(failed, 2);
  EXPECT_EQ(pending, 2);
  const std::string md = run_program({"answers", db_, "--format", "md"}).out;
  EXPECT_NE(md.find("|  |  | out_of_memory: needs \\| more |\n"), std::string::npos) << md;
  EXPECT_NE(md.find("|  |  | pending |\n"), std::string::npos);
}

TEST_F(AnswersCommandOutput, PrintsMarkdown) {
  const std::string whole = std::string(5000, 'x') + "end";
  execute(db_,
          "UPDATE record SET answer = 'a|b' || char(10) || '*c* <script> \\' || char(27) || "
          "'[2J' WHERE turn = 0; UPDATE record SET answer = '" +
              whole + "' WHERE turn = 1");
  const std::string md = run_program({"answers", db_, "--format", "md"}).out;
  EXPECT_EQ(split(md, "\n## tiny-fact, ").size(), 8u) << md.substr(0, 500);
  EXPECT_NE(md.find("| a\\|b \\*c\\* \\<script\\> \\\\\\\\x1b\\[2J |\n"), std::string::npos) << md;
  EXPECT_NE(md.find("**Question:** "), std::string::npos);
  EXPECT_NE(md.find("**References:** "), std::string::npos);
  EXPECT_NE(md.find("xx... |\n"), std::string::npos) << "shortened";
  EXPECT_EQ(lines()[1]["answers"][0]["answer"], whole) << "and whole";
}

// A tag, quotes, an escape sequence of terminals, and a character that reverses text.
constexpr const char* kHostileSql =
    "'<b>&\"' || char(27) || '[31m' || char(8238) || 'gnp' || char(10) || 'next'";

TEST(AnswersCommand, WritesAPageWithoutScriptAndRequests) {
  const TemporaryDirectory directory;
  const std::string db = directory.write("s.db", small_store());
  execute(db, std::string("UPDATE record SET answer = ") + kHostileSql + " WHERE turn = 0");
  const Finished page = run_program({"answers", db, "--format", "html", "--context"});
  EXPECT_EQ(page.code, 0) << page.err;
  EXPECT_TRUE(page.out.starts_with("<!doctype html>\n<!-- turnbench report -->\n"));
  EXPECT_TRUE(page.out.ends_with("</main>\n</body></html>\n"));
  EXPECT_NE(page.out.find("content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri "),
            std::string::npos);
  for (const char* absent : {"<script", "<b>", "http:", "https:", "\033", "\u202e"})
    EXPECT_EQ(page.out.find(absent), std::string::npos) << absent;
  EXPECT_NE(page.out.find("&lt;b&gt;&amp;&quot;\\x1b[31m\\u202egnp\nnext</div>"),
            std::string::npos);
  const auto count = [&](const std::string& part) { return split(page.out, part).size() - 1; };
  EXPECT_EQ(count("<article>"), 8u);
  EXPECT_EQ(count("<details><summary>Context ("), 8u);
  EXPECT_EQ(count("<tr><th scope=\"row\""), 16u) << "two methods";
  const std::string one =
      run_program({"answers", db, "--format", "html", "--limit", "1", "--method", "full"}).out;
  EXPECT_EQ(split(one, "<article>").size(), 2u);
  EXPECT_EQ(split(one, "<tr><th scope=\"row\"").size(), 2u);
  EXPECT_EQ(one.find("<details>"), std::string::npos);
  const Finished none =
      run_program({"answers", db, "--format", "html", "--where", "answer_tokens>99"});
  EXPECT_EQ(none.out, "");
  EXPECT_NE(none.err.find("no answered turn"), std::string::npos);
}

TEST(AnswersCommand, EscapesWhatATerminalWouldInterpret) {
  const TemporaryDirectory directory;
  const std::string db = directory.write("s.db", small_store());
  directory.write("small.csv", "method,position,value\nfull,end,12.5\n");
  const std::string hostile(kHostileSql);
  execute(db, "UPDATE record SET answer = " + hostile +
                  " WHERE turn = 0; UPDATE record SET status "
                  "= 'error', error = " +
                  hostile + " WHERE turn = 1");
  const std::string
      answers = run_program({"answers", db, "--format", "md"}).out,
      status = run_program({"status", db}).out, report = run_program({"report", db}).out,
      run = run_program({"run", directory.write("m.json", small_manifest()), "--db", db}).err;
  for (const std::string& text : {answers, status, report, run}) {
    EXPECT_EQ(text.find('\033'), std::string::npos) << text;
    EXPECT_EQ(text.find("\u202e"), std::string::npos) << text;
  }
  EXPECT_NE(answers.find("\\u202egnp next"), std::string::npos) << answers;
  EXPECT_NE(status.find("\\x1b[31m\\u202egnp next"), std::string::npos) << status;
  EXPECT_NE(run_program({"answers", db}).out.find("\\u001b[31m\\u202egnp\\nnext"),
            std::string::npos)
      << "JSON has its own escapes";
}

TEST(AnswersCommand, Refusals) {
  const auto answers = [](Arguments more) {
    return [more](const TemporaryDirectory& d) {
      Arguments out = {"answers", d.write("s.db", small_store())};
      out.insert(out.end(), more.begin(), more.end());
      return out;
    };
  };
  const Malformed cases[] = {
      {"no store",
       [](const TemporaryDirectory& d) {
         return Arguments{"answers", d.path("x.db")};
       },
       "x.db: found no such file"},
      {"method", answers({"--method", "snapvk"}), "--method: found \"snapvk\", expected"},
      {"another setting", answers({"--method", "snapkv:budget=65,window=8"}),
       "--method: found \"snapkv:budget=65,window=8\", expected \"snapkv:budget=64,window=8\""},
      {"dataset", answers({"--dataset", "tiny-hop"}), "--dataset: found \"tiny-hop\""},
      {"experiment", answers({"--experiment", "x"}), "found no experiment \"x\""},
      {"field", answers({"--where", "scores<1"}),
       "--where: found the field \"scores\", expected \"score\""},
      {"operator", answers({"--where", "score=>1"}), "--where: found the operator \"=>\""},
      {"no operator", answers({"--where", "score"}), "--where: found the operator \"\""},
      {"number", answers({"--where", "score<high"}), "--where: found \"high\""},
      {"infinite", answers({"--where", "score<inf"}), "--where: found \"inf\""},
      {"format", answers({"--format", "tex"}), "--format: found \"tex\""},
      {"two formats", answers({"--format", "md", "--json"}), "--json: found --format md too"},
      {"a turn that is not there",
       [](const TemporaryDirectory& d) -> Arguments {
         const std::string file = d.write("s.db", small_store());
         execute(file, "PRAGMA foreign_keys=OFF; UPDATE record SET turn = 7 WHERE turn = 1");
         return {"answers", file};
       },
       "found the turn 7 of dialogue"},
  };
  expect_refusals(cases);
}

}  // namespace
}  // namespace turnbench::test
