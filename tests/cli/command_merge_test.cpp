// `merge`: shards of a run become the run again, and stores that contradict each other are refused
// without a trace.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "common/text.h"
#include "harness/store/provenance.h"
#include "harness/store/store.h"
#include "tests/cli/small_store.h"
#include "tests/harness/store/store_dump.h"

namespace turnbench::test {
namespace {

namespace fs = std::filesystem;

class MergeCommand : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return directory_.path(name); }
  /// A copy of the small store, changed by SQL.
  std::string copy(const std::string& name, const std::string& sql = "") const {
    const std::string path = directory_.write(name, small_store());
    if (!sql.empty()) execute(path, sql);
    return path;
  }
  /// A copy without the units whose number modulo `of` is not `index`.
  std::string shard(const std::string& source, const std::string& name, int index, int of) const {
    const std::string path = file(name);
    fs::copy_file(source, path);
    std::string sql = "PRAGMA foreign_keys=ON; ";
    int number = 0;
    {
      const Database db(path, Database::Mode::kReadWrite);
      Statement units =
          db.prepare("SELECT DISTINCT cell, dialogue FROM record ORDER BY dialogue, cell");
      while (units.next()) {
        if (number++ % of == index) continue;
        sql += fmt::format("DELETE FROM record WHERE cell = '{}' AND dialogue = '{}'; ",
                           units.text(0), units.text(1));
      }
    }
    EXPECT_GE(number, of);
    execute(path, sql);
    return path;
  }
  static Finished merge(Arguments arguments) {
    arguments.insert(arguments.begin(), "merge");
    return run_program(arguments);
  }
  /// Merging is refused with exit code 1 and one line with all these words, and `out` is not made.
  void expect_conflict(const Arguments& stores, const std::vector<std::string>& words) const {
    Arguments arguments = stores;
    arguments.insert(arguments.begin(), file("refused.db"));
    const auto before = directory_.content();
    const Finished done = merge(arguments);
    EXPECT_EQ(done.code, 1);
    EXPECT_EQ(done.out, "");
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
    for (const std::string& word : words)
      EXPECT_NE(done.err.find(word), std::string::npos) << word << ": " << done.err;
    EXPECT_TRUE(directory_.content() == before);
  }

  TemporaryDirectory directory_;
};

void expect_same_reports(const std::string& got, const std::string& want,
                         const Arguments& more = {}) {
  for (const char* format : {"md", "csv", "json", "html"}) {
    Arguments a = {"report", got, "--format", format}, b = {"report", want, "--format", format};
    a.insert(a.end(), more.begin(), more.end());
    b.insert(b.end(), more.begin(), more.end());
    const Finished first = run_program(a), second = run_program(b);
    EXPECT_EQ(first.code, 0) << first.err;
    EXPECT_EQ(first.out, second.out) << format;
    EXPECT_EQ(first.err, second.err) << format;
  }
}

TEST_F(MergeCommand, ShardsBecomeTheRunAgain) {
  const std::string whole = copy("whole.db"), out = file("out.db");
  Arguments arguments = {out};
  for (int i = 0; i < 3; ++i)
    arguments.push_back(shard(whole, fmt::format("shard-{}.db", i), i, 3));
  const Finished done = merge(arguments);
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.err, "");
  EXPECT_EQ(done.out, fmt::format("{}: 3 of 3 dialogues added\n{}: 3 of 3 dialogues added\n"
                                  "{}: 2 of 2 dialogues added\n{}: 8 dialogues\n",
                                  arguments[1], arguments[2], arguments[3], out));
  const Dump want = dump(whole, true);
  expect_same(dump(out, true), want);
  expect_same_reports(out, whole);
  EXPECT_EQ(run_program({"status", out}).code, 0);
  // Again, into a store that has everything.
  arguments.push_back("--json");
  const Json again = merge(arguments).json();
  EXPECT_EQ(again["units"], 8);
  EXPECT_EQ(again["stores"].size(), 3u);
  EXPECT_EQ(again["stores"][0]["added"], 0);
  EXPECT_EQ(again["stores"][0]["equal"], 3);
  expect_same(dump(out, true), want);
}

TEST_F(MergeCommand, ReportsKeepTheOrderOfExperiments) {
  const std::string whole = copy("whole.db");
  for (const char* name : {"second", "first"}) {
    const std::string manifest = directory_.write(
        fmt::format("{}.json", name),
        fmt::format(R"({{"name": "{}", "models": ["tiny"], "datasets": [{{"name": "tiny-fact",
          "limit": 2, "length": 120, "turns": 2, "seed": 1}}], "methods": ["full", "h2o:budget=40"],
          "positions": ["begin", "end"], "max_new_tokens": 4}})",
                    name));
    ASSERT_EQ(run_program({"run", manifest, "--db", whole}).code, 0);
  }
  const std::string first = shard(whole, "a.db", 0, 2), second = shard(whole, "b.db", 1, 2);
  // One of them lacks the experiment in the middle.
  ASSERT_EQ(run_program({"forget", first, "--experiment", "second"}).code, 0);
  const std::string out = file("out.db");
  const Finished done = merge({out, first, second});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(Store::open(out).experiments(), Store::open(whole).experiments());
  expect_same_reports(out, whole);
  expect_same_reports(out, whole, {"--experiment", "small"});
}

TEST_F(MergeCommand, ContradictingResultsAreRefusedByTheirFirstDifference) {
  const std::string a = copy("a.db");
  const std::string one =
      " WHERE turn = 1 AND (cell, dialogue) = (SELECT cell, dialogue FROM record WHERE cell = "
      "(SELECT cell FROM experiment_cell WHERE ordinal = 2) ORDER BY dialogue LIMIT 1)";
  const std::string dialogue = [&] {
    const Database db(a, Database::Mode::kReadWrite);
    Statement s = db.prepare("SELECT min(dialogue) FROM record");
    return s.next() ? s.text(0) : "";
  }();
  const auto refused = [&](const char* name, const std::string& sql, const char* field) {
    SCOPED_TRACE(sql);
    const std::string b = copy(name, sql + one);
    expect_conflict({a, b},
                    {b + ": found other results than in " + a,
                     "tiny, tiny-fact, end, full, dialogue " + dialogue + ", turn 2: " + field});
  };
  refused("answer.db", "UPDATE record SET answer = 'other', stopped = 1 - stopped",
          "answer is \"other\" instead of \"");
  refused("tokens.db", "UPDATE record SET answer_tokens = '[7]'",
          "answer_tokens is \"[7]\" instead of \"[");
  refused("prompt.db", "UPDATE record SET prompt_hash = 'p', answer = 'other'",
          "prompt_hash is \"p\" instead of \"");
  refused("status.db", "UPDATE record SET status = 'no_value'",
          "status is \"no_value\" instead of \"ok\"");
  refused("stopped.db", "UPDATE record SET stopped = 1 - stopped", "stopped is ");
  refused("score.db", "UPDATE score SET value = 0.125",
          "score qa_f1/last_value is 0.125 instead of ");
  refused("counter.db", "UPDATE counter SET value = 7.5", "counter attended_tokens is 7.5 instead");
  refused("without.db", "DELETE FROM counter", "counter attended_tokens is none instead of ");
  refused("turns.db", "DELETE FROM record", "number of turns is 1 instead of 2");
  // Which times it took, and where, is no matter.
  const std::string b = copy("b.db", "UPDATE timing SET value = value + 1" + one);
  EXPECT_EQ(merge({file("out.db"), a, b}).code, 0);
}

TEST_F(MergeCommand, AConflictNamesTheStoreOfTheResult) {
  const std::string a = copy("a.db"), changed = copy("b.db", "UPDATE record SET answer = 'other'");
  const std::string out = file("out.db");
  ASSERT_EQ(merge({out, a}).code, 0);
  const Dump before = dump(out, true);
  const Finished with_out = merge({out, changed});
  EXPECT_EQ(with_out.code, 1);
  EXPECT_NE(with_out.err.find(changed + ": found other results than in " + out), std::string::npos)
      << with_out.err;
  const Finished with_input = merge({out, a, changed});
  EXPECT_NE(with_input.err.find(changed + ": found other results than in " + a), std::string::npos)
      << with_input.err;
  expect_same(dump(out, true), before);
}

TEST_F(MergeCommand, FailedUnitsGiveWay) {
  const std::string whole = copy("whole.db"),
                    failed = copy("failed.db",
                                  "PRAGMA foreign_keys=ON; UPDATE record SET status = "
                                  "'out_of_memory', error = 'needs more', answer = '' WHERE turn = "
                                  "1 AND dialogue = (SELECT min(dialogue) FROM record); DELETE "
                                  "FROM score WHERE turn = 1 AND dialogue = (SELECT min(dialogue) "
                                  "FROM record)");
  const Finished after = merge({file("after.db"), whole, failed});
  ASSERT_EQ(after.code, 0) << after.err;
  EXPECT_NE(
      after.out.find(failed + ": 0 of 8 dialogues added, 4 there already, 4 failed and not used"),
      std::string::npos)
      << after.out;
  EXPECT_NE(after.out.find("4 failed dialogues gave way to results of other stores\n"),
            std::string::npos)
      << after.out;
  const Finished before = merge({file("before.db"), failed, whole});
  EXPECT_NE(
      before.out.find(whole + ": 0 of 8 dialogues added, 4 there already, 4 instead of failed"),
      std::string::npos)
      << before.out;
  for (const char* out : {"after.db", "before.db"}) {
    expect_same(dump(file(out), true), dump(whole, true));
    expect_same_reports(file(out), whole);
    const Finished checked = run_program({"doctor", file(out)});  // finds rows of deleted records
    EXPECT_EQ(checked.code, 0) << checked.out;
  }
  // Where it failed everywhere, it stays failed.
  ASSERT_EQ(merge({file("failures.db"), failed, failed}).code, 0);
  expect_same(dump(file("failures.db"), true), dump(failed, true));
}

TEST_F(MergeCommand, StoresWithoutReferencedRowsAreRefused) {
  const std::string judged =
      "PRAGMA foreign_keys=OFF; INSERT INTO judgement_data SELECT min(id), 'unknown', 0, '', 'ok', "
      "'', '', '{}' FROM record_data";
  expect_conflict(
      {copy("whole.db"), copy("judged.db", judged)},
      {file("judged.db") + ": found a row of judgement_data without its judge, expected "
                           "complete stores: `turnbench doctor STORE` shows all such "
                           "rows"});
  expect_conflict({copy("unknown.db", "PRAGMA foreign_keys=OFF; DELETE FROM model")},
                  {file("unknown.db") + ": found a row of cell without its model"});
  expect_conflict({copy("lost.db", "PRAGMA foreign_keys=OFF; DELETE FROM dialogue")},
                  {file("lost.db") + ": found 16 records of unknown cells or dialogues"});
}

// A damaged page can hide rows, so that a query finds fewer of them and no error.
TEST_F(MergeCommand, ADamagedPageIsRefused) {
  constexpr std::size_t kPage = 4096;
  const std::string& whole = small_store();
  // The first page has the schema's beginning: other tests damage it.
  for (std::size_t at = kPage; at < whole.size(); at += kPage) {
    std::string bytes = whole;
    bytes.replace(at, kPage, kPage, '\0');
    const std::string damaged = directory_.write("damaged.db", bytes), out = file("out.db");
    const Finished done = merge({out, damaged});
    EXPECT_EQ(done.code, 2) << at / kPage;
    EXPECT_TRUE(done.out.empty()) << done.out;
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
    EXPECT_NE(done.err.find(damaged + ": found "), std::string::npos) << done.err;
    EXPECT_FALSE(fs::exists(out));
  }
}

TEST_F(MergeCommand, OtherSourcesAreRefused) {
  const std::string a = copy("a.db");
  const auto refused = [&](const std::string& sql, const std::string& parts) {
    const std::string b = copy("b.db", sql);
    expect_conflict({a, b}, {b + ": found results of other sources than those of " + a + " (" +
                             parts + "), expected the same"});
  };
  const auto changed = [](const char* part) {
    return fmt::format("UPDATE environment SET json = json_set(json, '$.sources.\"{}\"', 'x')",
                       part);
  };
  refused(changed("engine"), "engine");
  refused(changed("methods/snapkv"), "methods/snapkv");
  refused(changed("cuda"), "cuda");
  refused("UPDATE environment SET json = '{}'", "engine, methods/full, methods/snapkv, prompts");
  refused("UPDATE score SET sources = 'x'", "metrics");
  refused("UPDATE dataset SET sources = 'x'", "datasets");
  // Even if the store has no unit in common with the others.
  const std::string first = shard(a, "first.db", 0, 2), second = shard(a, "second.db", 1, 2);
  execute(second, changed("prompts"));
  expect_conflict({first, second}, {"(prompts)"});
  // A method that computed nothing does not matter.
  const std::string c = copy("c.db", changed("methods/h2o"));
  EXPECT_EQ(merge({file("out.db"), a, c}).code, 0);
}

TEST_F(MergeCommand, OtherPlansAreRefused) {
  const std::string manifest = directory_.write("own.json", R"({"name": "own", "models": ["tiny"],
      "datasets": [{"name": "jsonl", "label": "own", "source": "own.jsonl",
      "fields": {"question": "q", "references": "a"}}], "methods": ["full"],
      "max_new_tokens": 2})");
  for (const char* color : {"red", "blue"}) {
    directory_.write("own.jsonl", fmt::format("{{\"q\": \"what is {}?\", \"a\": \"it\", "
                                              "\"metric\": \"exact_match\"}}\n",
                                              color));
    const Finished run =
        run_program({"run", manifest, "--db", file(fmt::format("{}.db", color)), "--quiet"});
    ASSERT_EQ(run.code, 0) << run.err;
  }
  expect_conflict({file("red.db"), file("blue.db")},
                  {file("blue.db") + ": found another cell of the experiment own at the place of "
                                     "tiny, own, ",
                   "they differ in dataset ("});
  const std::string a = copy("a.db");
  const std::string c = copy("c.db", "UPDATE dialogue SET json = json_set(json, '$.new', 1)");
  expect_conflict({a, c}, {c + ": found another text of dialogue "});
}

TEST_F(MergeCommand, ScoresJudgementsAndPredictionsAreMerged) {
  const std::string whole = copy("whole.db");
  ASSERT_EQ(run_program({"score", whole, "--metric", "exact_match"}).code, 0);
  const Json line = parse_json(run_program({"answers", whole}).lines().at(0), "a line");
  const std::string predictions = directory_.write(
      "p.jsonl", Json{{"dialogue", line["dialogue"]}, {"turn", 1}, {"answer", "x"}}.dump() + "\n");
  {
    Store store = Store::open_to_write(whole);
    store.add_judge({"j", "rubric", "hash", "text", "model"});
    for (const ScoredTurn& turn : store.scores("small"))
      store.add_judgement({turn.cell, turn.dialogue, turn.turn, "j", 0, "", {}, "", "reply", {}});
  }
  ASSERT_EQ(run_program({"import-predictions", predictions, "--db", whole, "--label", "mine",
                         "--experiment", "small"})
                .code,
            0);
  const std::string plain = copy("plain.db"), out = file("out.db");
  // What is only in the second store is added to the units of the first.
  const Finished done = merge({out, plain, whole, "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.json()["stores"][1]["scores_added"], 16);
  EXPECT_EQ(done.json()["stores"][1]["judgements_added"], 16);
  expect_same(dump(out, true), dump(whole, true));
  expect_same_reports(out, whole);
  expect_same_reports(out, whole, {"--metric", "exact_match"});
  ASSERT_EQ(merge({out, whole, plain}).code, 0);
  expect_same(dump(out, true), dump(whole, true));
}

TEST_F(MergeCommand, OneStoreAndEmptyStores) {
  const std::string whole = copy("whole.db"), empty = directory_.write("empty.db", ""),
                    out = file("out.db");
  ASSERT_EQ(merge({out, empty}).code, 0);
  EXPECT_EQ(run_program({"status", out}).out, out + ": no experiment has begun\n");
  ASSERT_EQ(merge({out, whole, empty, whole}).code, 0);
  expect_same(dump(out, true), dump(whole, true));
}

// Tables show one manifest of a name.
TEST_F(MergeCommand, NotesHiddenManifests) {
  directory_.write("small.csv", "method,position,value\nfull,end,12.5\n");
  const auto run = [&](const std::string& store, const std::string& manifest) {
    const std::string path = directory_.write("m.json", manifest);
    ASSERT_EQ(run_program({"run", path, "--db", store, "--quiet"}).code, 0);
  };
  const std::string a = file("a.db"), b = file("b.db"), earlier = small_manifest(),
                    later = replace_all(earlier, "budget=", "budget=1");
  ASSERT_NE(earlier, later);
  run(a, earlier);
  run(b, later);
  const std::string note =
      ": tables show the manifest of {}, not the other manifests of this name in {}\n";
  const auto has_note = [&](const Finished& merged, const std::string& shown,
                            const std::string& not_shown) {
    EXPECT_EQ(merged.code, 0) << merged.err;
    return merged.out.find(fmt::format(fmt::runtime(note), shown, not_shown)) != std::string::npos;
  };
  EXPECT_TRUE(has_note(merge({file("ab.db"), a, b}), b, a));
  EXPECT_TRUE(has_note(merge({file("ba.db"), b, a}), a, b));
  // A store whose manifest was edited shows the later one.
  run(a, later);
  EXPECT_EQ(merge({file("edited.db"), a, b}).out.find("not the other"), std::string::npos);
}

// Killed at any time, the merged store is as before or complete.
TEST_F(MergeCommand, KillsLeaveAllOrNothing) {
  const std::string a = copy("a.db"), b = file("b.db"), before = file("before.db");
  {
    StoredExperiment plan;
    plan.name = "large";
    plan.manifest = R"({"name": "large"})";
    plan.environment = environment_card();
    plan.models = {{"m", "model"}};
    plan.datasets = {{"d", "dataset"}};
    for (int i = 0; i < 40; ++i) plan.dialogues.push_back({"d", fmt::format("x{}", i), 2, "{}"});
    std::vector<Record> records;
    for (int c = 0; c < 60; ++c) {
      const std::string key = fmt::format("cell{}", c);
      plan.cells.push_back({key, "tiny", "facts", "qa", "end", "imported:x", "reprefill", "own",
                            "qa_f1", "none", "m", "d", "imported:x", "p", "{}"});
      for (int i = 0; i < 80; ++i) {
        Record& r = records.emplace_back();
        r.cell = key;
        r.dialogue = fmt::format("x{}", i / 2);
        r.turn = i % 2;
        r.answer = "an answer";
        r.counters = {{"kv_tokens", 5}, {"kv_bytes", 7}};
      }
    }
    Store store = Store::create(b);
    store.add_experiment(plan);
    store.add_records(records, {});
  }
  ASSERT_EQ(merge({before, a}).code, 0);
  const Dump old = dump(before);
  const std::string complete = file("complete.db");
  fs::copy_file(before, complete);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(merge({complete, b}).code, 0);
  const auto took = std::chrono::steady_clock::now() - begin;
  const Dump all = dump(complete);
  int unchanged = 0;
  constexpr int kKills = 8;
  for (int i = 0; i < kKills; ++i) {
    const std::string out = file(fmt::format("out{}.db", i));
    fs::copy_file(before, out);
    Program program({"merge", out, b});
    std::this_thread::sleep_for(took * i / kKills);
    program.signal(SIGKILL);
    program.wait();
    const bool is_old = count(out, "SELECT count(*) FROM experiment") == 1;
    unchanged += is_old;
    expect_same(dump(out), is_old ? old : all);
  }
  EXPECT_GT(unchanged, 0);
}

TEST(MalformedMerge, Stores) {
  const auto with = [](const char* name, const std::string& bytes) {
    return [name, bytes](const TemporaryDirectory& d) -> Arguments {
      return {"merge", d.write("out.db", small_store()), d.write("a.db", small_store()),
              bytes.empty() ? d.path(name) : d.write(name, bytes)};
    };
  };
  const Malformed cases[] = {
      {"missing", with("x.db", ""), "x.db: found no such file, expected a turnbench store"},
      {"no store", with("x.db", std::string(5000, 'x')), "x.db: found no usable database"},
      {"newer schema",
       [](const TemporaryDirectory& d) -> Arguments {
         const std::string newer = d.write("b.db", small_store());
         execute(newer, "PRAGMA user_version=99");
         return {"merge", d.write("out.db", small_store()), newer};
       },
       "b.db: found schema version 99"},
      {"OUT is no store",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"merge", d.write("out.txt", std::string(5000, 'x')),
                 d.write("a.db", small_store())};
       },
       "out.txt: found no usable database"},
      {"OUT is another program's",
       [](const TemporaryDirectory& d) -> Arguments {
         execute(d.path("out.db"), "CREATE TABLE t(x)");
         return {"merge", d.path("out.db"), d.write("a.db", small_store())};
       },
       "out.db: found an SQLite file of another program"},
      {"OUT twice",
       [](const TemporaryDirectory& d) -> Arguments {
         const std::string out = d.write("out.db", small_store());
         return {"merge", out, d.write("a.db", small_store()), out};
       },
       "out.db: found the same store as OUT"},
      {"OUT by another name",
       [](const TemporaryDirectory& d) -> Arguments {
         const std::string out = d.write("out.db", small_store());
         fs::create_symlink(out, d.path("link.db"));
         return {"merge", out, d.path("link.db")};
       },
       "out.db: found the same store as OUT"},
      {"no store named",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"merge", d.path("out.db")};
       },
       "merge: found no db, expected one"},
      {"damaged", with("x.db", small_store().substr(0, small_store().size() / 2)), "malformed"},
  };
  expect_refusals(cases);
}

}  // namespace
}  // namespace turnbench::test
