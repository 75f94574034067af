// The program on small manifests: stored results, recomputation, and interrupts.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <set>

#include "common/error.h"
#include "common/text.h"
#include "tests/cli/program.h"
#include "tests/harness/store/store_dump.h"

namespace turnbench {
namespace {

using namespace test;

/// A manifest of the embedded model; the tests replace the parts that they vary.
struct Draft {
  std::string name = "small";
  std::string datasets = R"({"name": "tiny-fact", "limit": 3, "length": 150})";
  std::string methods = R"("full", "snapkv:budget=40,window=8")";
  std::string more = R"("history": ["reprefill", "recompress"])";

  std::string text() const {
    return R"({"name": ")" + name + R"(", "models": ["tiny"], "datasets": [)" + datasets +
           R"(], "positions": ["begin", "end"], "methods": [)" + methods +
           R"(], "max_new_tokens": 8, )" + more + "}";
  }
};

class EndToEnd : public testing::Test {
 protected:
  Finished run(const Draft& draft, const std::string& db, std::vector<std::string> more = {}) {
    const std::string manifest = directory_.write(draft.name + ".json", draft.text());
    more.insert(more.begin(), {"run", manifest, "--db", directory_.path(db)});
    return run_program(more);
  }
  std::string file(const std::string& name) const { return directory_.path(name); }
  std::set<std::string> cells(const std::string& db) const {
    const Database store(file(db), Database::Mode::kReadWrite);
    std::set<std::string> out;
    Statement s = store.prepare("SELECT DISTINCT cell FROM record");
    while (s.next()) out.insert(s.text(0));
    return out;
  }

  TemporaryDirectory directory_;
};

constexpr const char* kRecords = "SELECT count(*) FROM record";

TEST_F(EndToEnd, RunsReportsAndRunsNothingTwice) {
  const Finished first = run({}, "a.db");
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.out.find("| snapkv | reprefill |"), std::string::npos) << first.out;
  // 3 dialogues (2, 3 and 2 turns) x 2 positions x 2 methods x 2 histories.
  EXPECT_EQ(count(file("a.db"), kRecords), 7 * 8);
  EXPECT_EQ(count(file("a.db"), "SELECT count(*) FROM score"), 7 * 8);
  EXPECT_EQ(count(file("a.db"), "SELECT count(*) FROM record WHERE status <> 'ok'"), 0);
  const Dump before = dump(file("a.db"), true);
  const Finished again = run({}, "a.db");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, first.out);
  EXPECT_NE(again.err.find("0 units done"), std::string::npos) << again.err;
  expect_same(dump(file("a.db"), true), before);
  const Finished report = run_program({"report", file("a.db")});
  EXPECT_EQ(report.out, first.out) << "the report is the table that the run printed";
  const Finished status = run_program({"status", file("a.db"), "--json"});
  EXPECT_EQ(status.json()[0]["pending"], 0) << status.out;
  EXPECT_EQ(status.json()[0]["failed"], 0) << status.out;
}

TEST_F(EndToEnd, RunsCustomFilesAndNeedles) {
  directory_.write("own.jsonl", R"({"q": "what is red?", "a": "it", "metric": "exact_match"})"
                                "\n"
                                R"({"turns": [{"q": "one?", "a": "1", "context": "one is 1."}, )"
                                R"({"q": "two?", "a": ["2", "3"]}], "metric": "exact_match"})");
  Draft draft;
  draft.methods = R"("full")";
  draft.more = R"("history": "reprefill")";
  draft.datasets =
      R"({"name": "jsonl", "source": "own.jsonl", "fields": {"question": "q", "references": "a"}},)"
      R"({"name": "needle", "length": 220, "limit": 1, "depth": 50})";
  const Finished done = run(draft, "a.db");
  ASSERT_EQ(done.code, 0) << done.err;
  // One and two turns of the file and one needle, x 2 positions.
  EXPECT_EQ(count(file("a.db"), kRecords), 4 * 2);
  EXPECT_EQ(count(file("a.db"), "SELECT count(*) FROM score WHERE metric = 'exact_match'"), 3 * 2);
  EXPECT_EQ(count(file("a.db"), "SELECT count(*) FROM score WHERE metric = 'ruler_match_all'"), 2);

  directory_.write("own.jsonl", R"({"q": "a?", "a": "b", "metric": "exact_match"})"
                                "\n"
                                R"({"q": "a?", "a": "b", "metric": "qa_f1"})");
  const Finished mixed = run(draft, "b.db");
  EXPECT_EQ(mixed.code, 2);
  EXPECT_EQ(mixed.err,
            "turnbench: dataset jsonl: found the metrics \"exact_match\" and \"qa_f1\", expected "
            "one, or a \"metric\" in the manifest\n");
}

// Isolated cells have times, the same answers as in shared runs, and answers of one length.
TEST_F(EndToEnd, IsolatedCellsAreTimed) {
  Draft draft;
  draft.more = R"("history": "reprefill")";
  ASSERT_EQ(run(draft, "together.db").code, 0);
  draft.more = R"("alone": true, "tables": [{"value": "ttft"}, {"value": "step"},
                   {"value": "peak_bytes", "difference_to": "full"}])";
  const Finished timed = run(draft, "alone.db");
  ASSERT_EQ(timed.code, 0) << timed.err;
  for (const char* title : {"time to the first token", "between two tokens", "(ms)", "(MiB)"})
    EXPECT_NE(timed.out.find(title), std::string::npos) << title;
  const std::string answers =
      "SELECT r.answer_tokens FROM record r JOIN cell c ON c.key = r.cell WHERE r.turn = 0 "
      "ORDER BY c.method, c.position, r.dialogue";
  const Database alone(file("alone.db"), Database::Mode::kReadWrite),
      together(file("together.db"), Database::Mode::kReadWrite);
  Statement ours = alone.prepare(answers), theirs = together.prepare(answers);
  int rows = 0;
  for (; ours.next(); ++rows) {
    ASSERT_TRUE(theirs.next());
    EXPECT_EQ(parse_json(ours.text(0), "alone").size(), 8u);
    const std::string until_stop = theirs.text(0).substr(0, theirs.text(0).size() - 1);
    EXPECT_EQ(ours.text(0).substr(0, until_stop.size()), until_stop);
  }
  EXPECT_EQ(rows, 3 * 2 * 2);
  for (const char* name : {"ttft", "step", "step_p95"}) {
    EXPECT_EQ(count(file("alone.db"), fmt::format("SELECT count(*) FROM timing WHERE name = '{}' "
                                                  "AND value > 0",
                                                  name)),
              count(file("alone.db"), kRecords));
  }
}

// A missing dictionary is reported before anything runs.
TEST_F(EndToEnd, MetricsOfChineseWords) {
  Draft draft;
  draft.datasets = R"({"name": "tiny-fact", "limit": 1, "length": 200, "metric": "qa_f1_zh"})";
  const Finished without = run(draft, "a.db");
  EXPECT_EQ(without.code, 2);
  EXPECT_NE(without.err.find("--data jieba=DIR"), std::string::npos) << without.err;
  const Finished with =
      run(draft, "a.db", {"--data", "jieba=" TURNBENCH_SOURCE_DIR "/tests/data/metrics/jieba"});
  EXPECT_EQ(with.code, 0) << with.err;
}

// Results do not depend on workers and threads.
TEST_F(EndToEnd, WorkersAndThreadsDoNotMatter) {
  Draft draft;
  draft.methods += R"(, "streamingllm:budget=30,pos=shift", "loopserve:alpha=0.8,budget=40")";
  ASSERT_EQ(run(draft, "one.db", {"--workers", "1", "--threads", "1"}).code, 0);
  ASSERT_EQ(run(draft, "three.db", {"--workers", "3", "--threads", "2"}).code, 0);
  ASSERT_EQ(run(draft, "four.db", {"--workers", "1", "--threads", "4"}).code, 0);
  expect_same(dump(file("three.db")), dump(file("one.db")));
  expect_same(dump(file("four.db")), dump(file("one.db")));
}

TEST_F(EndToEnd, ALimitedRunIsPartOfTheFullOne) {
  ASSERT_EQ(run({}, "full.db").code, 0);
  ASSERT_EQ(run({}, "part.db", {"--limit", "1"}).code, 0);
  EXPECT_EQ(count(file("part.db"), kRecords), 2 * 8);
  EXPECT_EQ(cells("part.db"), cells("full.db"));
  const Dump before = dump(file("part.db"), true);
  const Finished rest = run({}, "part.db");
  EXPECT_NE(rest.err.find("4 units done"), std::string::npos) << rest.err;
  expect_same(dump(file("part.db")), dump(file("full.db")));
  const Dump after = dump(file("part.db"), true);
  for (const std::string& row : before.at("timing")) {
    EXPECT_TRUE(std::binary_search(after.at("timing").begin(), after.at("timing").end(), row))
        << "what was there was not computed again";
  }
}

TEST_F(EndToEnd, ANewMethodComputesOnlyItsCells) {
  Draft draft;
  ASSERT_EQ(run(draft, "a.db").code, 0);
  const std::set<std::string> before = cells("a.db");
  const Dump old = dump(file("a.db"), true);
  draft.methods += R"(, "streamingllm:budget=30")";
  ASSERT_EQ(run(draft, "a.db").code, 0);
  const std::set<std::string> after = cells("a.db");
  EXPECT_EQ(before.size(), 8u);
  EXPECT_EQ(after.size(), 12u);
  EXPECT_TRUE(std::includes(after.begin(), after.end(), before.begin(), before.end()));
  const Dump now = dump(file("a.db"), true);
  for (const std::string& row : old.at("timing"))
    EXPECT_TRUE(std::binary_search(now.at("timing").begin(), now.at("timing").end(), row));
  // The records equal those of one run of the longer manifest, except for the shorter one's plan.
  ASSERT_EQ(run(draft, "b.db").code, 0);
  const Dump whole = dump(file("b.db"));
  Dump grown = dump(file("a.db"));
  for (const char* table : {"record", "score", "counter", "timing", "cell", "dialogue"})
    EXPECT_EQ(grown.at(table), whole.at(table)) << table;
}

TEST_F(EndToEnd, AChangedSettingMakesNewCells) {
  ASSERT_EQ(run({}, "a.db", {"--limit", "1"}).code, 0);
  const auto [datasets, methods, more] =
      std::tuple(Draft().datasets, Draft().methods, Draft().more);
  std::vector<Draft> drafts(7);
  drafts[0].datasets = R"({"name": "tiny-fact", "limit": 3, "length": 160})";
  drafts[1].datasets = R"({"name": "tiny-fact", "limit": 3, "length": 150, "seed": 1})";
  drafts[2].datasets =
      R"({"name": "tiny-fact", "limit": 3, "length": 150, "metric": "exact_match"})";
  drafts[3].more += R"(, "seed": 2)";
  drafts[4].more += R"(, "max_prompt_tokens": 300)";
  drafts[5].methods = R"("snapkv:budget=41,window=8")";
  drafts[6].more = R"("history": "compress_once")";
  std::set<std::string> known = cells("a.db");
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    ASSERT_EQ(run(drafts[i], "a.db", {"--limit", "1"}).code, 0) << i;
    const std::set<std::string> now = cells("a.db");
    const std::size_t made = i < 5 ? 8 : 4;  // no cell is shared with another draft
    EXPECT_EQ(now.size(), known.size() + made) << i;
    known = now;
  }
  // Titles and tables do not affect results.
  Draft renamed;
  renamed.more +=
      R"(, "title": "another", "tables": [{"rows": ["position"], "columns": ["method"]}])";
  ASSERT_EQ(run(renamed, "a.db", {"--limit", "1"}).code, 0);
  EXPECT_EQ(cells("a.db"), known);
}

TEST_F(EndToEnd, TwoExperimentsInOneStore) {
  Draft a, b;
  a.name = "a";
  b.name = "b";
  b.methods = R"("full", "streamingllm:budget=30")";
  const Finished first = run(a, "both.db"), second = run(b, "both.db");
  ASSERT_EQ(first.code + second.code, 0);
  EXPECT_EQ(cells("both.db").size(), 12u) << "they share the cells of full";
  for (const auto& [name, ran] : {std::pair("a", first), std::pair("b", second)}) {
    const Finished report = run_program({"report", file("both.db"), "--experiment", name});
    EXPECT_EQ(report.out, ran.out);
  }
  EXPECT_EQ(run_program({"report", file("both.db")}).out, second.out) << "the latest";
  const Finished none = run_program({"report", file("both.db"), "--experiment", "c"});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("expected one of: a, b"), std::string::npos) << none.err;
}

TEST_F(EndToEnd, FailuresAreListedAndCanBeRetried) {
  Draft draft;
  draft.methods = R"("full", "snapkv:budget=0.01,window=8")";
  const Finished ran = run(draft, "a.db");
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.err.find("failed: "), std::string::npos) << ran.err;
  EXPECT_NE(ran.out.find("\n|  | recompress | failed (7) | failed (7) |"), std::string::npos)
      << ran.out;
  EXPECT_EQ(count(file("a.db"), "SELECT count(*) FROM record WHERE status = 'error'"), 28);
  EXPECT_EQ(count(file("a.db"), "SELECT count(*) FROM record WHERE status = 'ok'"), 28);
  const Dump before = dump(file("a.db"));
  const Finished again = run(draft, "a.db");
  EXPECT_NE(again.err.find("0 units done"), std::string::npos) << "failures are results too";
  EXPECT_EQ(again.code, 1);
  const Finished retry = run_program({"status", file("a.db"), "retry"});
  EXPECT_NE(retry.err.find("28 failed records forgotten"), std::string::npos) << retry.err;
  EXPECT_EQ(retry.code, 1) << "and they fail again";
  expect_same(dump(file("a.db")), before);
}

/// A sweep of a few seconds, in many batches.
Draft long_draft() {
  Draft draft;
  draft.name = "sweep";
  draft.datasets = R"({"name": "tiny-fact", "limit": 14, "length": 400},
                      {"name": "tiny-list", "limit": 10, "length": 300})";
  draft.methods += R"(, "streamingllm:budget=40,pos=shift", "oracle:budget=40,sinks=4")";
  draft.more = R"("history": ["reprefill", "recompress"])";
  return draft;
}

/// Every stored dialogue is complete, and every record has its score.
void expect_consistent(const std::string& path) {
  EXPECT_EQ(count(path,
                  "SELECT count(*) FROM (SELECT r.cell FROM record r JOIN cell c ON c.key = "
                  "r.cell JOIN dialogue d ON d.dataset = c.dataset AND d.id = r.dialogue "
                  "GROUP BY r.cell, r.dialogue HAVING count(*) <> max(d.turns))"),
            0);
  EXPECT_EQ(count(path, "SELECT count(*) FROM record"), count(path, "SELECT count(*) FROM score"));
  const Database db(path, Database::Mode::kReadWrite);
  Statement check = db.prepare("PRAGMA integrity_check");
  ASSERT_TRUE(check.next());
  EXPECT_EQ(check.text(0), "ok");
}

/// Returns when a running program has stored more than `before` records, or after 20 s.
void wait_for_more_than(std::int64_t before, const std::string& db) {
  for (int i = 0; i < 4000; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::error_code absent;  // the program removes its log when it ends
    const auto log = std::filesystem::file_size(db + "-wal", absent);
    if (absent || log == 0) continue;
    try {
      if (count(db, kRecords) > before) return;
    } catch (const Error&) {  // its tables are being made
    }
  }
}

// A store that would exceed the limit of file sizes.
TEST_F(EndToEnd, FileSizeLimitIsAOneLineError) {
  const Draft draft = long_draft();
  const std::string manifest = directory_.write("sweep.json", draft.text()), db = file("a.db");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{400 << 10, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Finished stopped = run_program({"run", manifest, "--db", db, "--quiet"});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(stopped.code, 1) << stopped.err;
  EXPECT_EQ(std::count(stopped.err.begin(), stopped.err.end(), '\n'), 1) << stopped.err;
  EXPECT_NE(stopped.err.find("a.db: disk I/O error (File too large)"), std::string::npos)
      << stopped.err;
  const Finished rest = run(draft, "a.db");
  EXPECT_EQ(rest.code, 0) << rest.err;
  expect_consistent(db);
}

// Killed at several moments, without any warning, and resumed each time.
TEST_F(EndToEnd, KillsLoseNothingThatWasStored) {
  const Draft draft = long_draft();
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(run(draft, "want.db", {"--workers", "2"}).code, 0);
  const double undisturbed =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::string manifest = file("sweep.json"), db = file("a.db");
  const std::int64_t all = count(file("want.db"), kRecords);
  std::mt19937 random(17);
  std::set<std::int64_t> found;  // records at the times of the kills
  std::int64_t before = 0;
  for (int i = 0; i < 9; ++i) {
    Program program({"run", manifest, "--db", db, "--workers", "2"});
    // First while the store is created; later some time after one more batch, even if the machine
    // has become slower since the undisturbed run.
    if (i >= 4 && before < all) wait_for_more_than(before, db);
    const double share = i < 4 ? 0.02 * (i + 1) : 0.1 * static_cast<double>(random() % 1000) / 1000;
    std::this_thread::sleep_for(std::chrono::duration<double>(share * undisturbed));
    program.signal(SIGKILL);
    const Finished end = program.wait();
    ASSERT_TRUE(end.code == 128 + SIGKILL || end.code == 0) << end.code << " " << end.err;
    if (!std::filesystem::exists(db)) continue;
    std::int64_t now = 0;
    try {
      now = count(db, kRecords);
      expect_consistent(db);
    } catch (const Error&) {
      ASSERT_EQ(before, 0) << "only a store without records may have no tables yet";
    }
    EXPECT_GE(now, before) << "nothing stored is lost";
    before = now;
    found.insert(now);
  }
  const Finished last = run(draft, "a.db", {"--workers", "2"});
  ASSERT_EQ(last.code, 0) << last.err;
  expect_same(dump(db), dump(file("want.db")));
  EXPECT_GT(found.size(), 3u) << "the kills fell into different places";
}

// Two sweeps started together on one new store share the file; each record is stored once.
TEST_F(EndToEnd, TwoProgramsShareOneStore) {
  ASSERT_EQ(run({}, "want.db").code, 0);
  const std::string manifest = file("small.json");
  for (int i = 0; i < 6; ++i) {
    const std::string db = file("both" + std::to_string(i) + ".db");
    Program a({"run", manifest, "--db", db, "--workers", "1"}),
        b({"run", manifest, "--db", db, "--workers", "1"});
    const Finished first = a.wait(), second = b.wait();
    ASSERT_EQ(first.code, 0) << first.err;
    ASSERT_EQ(second.code, 0) << second.err;
    expect_same(dump(db), dump(file("want.db")));
  }
}

}  // namespace
}  // namespace turnbench
