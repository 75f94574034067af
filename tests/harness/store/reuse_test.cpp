// The results that a run reuses from a store, and those that it computes again: results of other
// sources are never used as results of this program.

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "common/error.h"
#include "common/text.h"
#include "harness/store/stale.h"
#include "methods/method.h"
#include "tests/cli/small_store.h"
#include "tests/harness/store/store_dump.h"

namespace turnbench::test {
namespace {

TEST(ChangedParts, AreThoseThatDetermineACell) {
  const SourceHashes then = {{"engine", "1"},
                             {"prompts", "1"},
                             {"methods/snapkv", "1"},
                             {"methods/full", "1"},
                             {"probes/coverage", "1"}};
  const auto changed = [&](const std::string& canonical, const std::string& part) {
    SourceHashes now = then;
    now[part] = "2";
    return changed_parts(canonical, then, now);
  };
  const std::vector<std::string> none;
  EXPECT_EQ(changed("snapkv:budget=64,window=8", "engine"), std::vector<std::string>{"engine"});
  EXPECT_EQ(changed("snapkv:budget=64", "methods/snapkv"),
            std::vector<std::string>{"methods/snapkv"});
  EXPECT_EQ(changed("a-shape:n_init=1+snapkv:budget=64@host:cache_tokens=1", "methods/snapkv"),
            std::vector<std::string>{"methods/snapkv"});
  EXPECT_EQ(changed("full@host:cache_tokens=1", "methods/full"),
            std::vector<std::string>{"methods/full"});
  EXPECT_EQ(changed("adakv:budget=64,scorer=snapkv,skip=0", "methods/snapkv"),
            std::vector<std::string>{"methods/snapkv"});
  EXPECT_EQ(changed("adakv:budget=64,scorer=h2o,skip=0", "methods/snapkv"), none);
  EXPECT_EQ(changed("full", "methods/snapkv"), none);
  EXPECT_EQ(changed("full", "metrics"), none) << "its scores are another matter";
  EXPECT_EQ(changed("full", "cuda"), none) << "not computed on a card";
  EXPECT_EQ(changed("probe coverage:rows=4 over 2 dialogues abc", "probes/coverage"),
            std::vector<std::string>{"probes/coverage"});
  const std::string with_method = "probe output-error:layer=-1,method=a-shape+snapkv:budget=64";
  EXPECT_EQ(changed(with_method, "methods/snapkv"), std::vector<std::string>{"methods/snapkv"});
  EXPECT_EQ(changed(with_method, "probes/output-error"),
            std::vector<std::string>{"probes/output-error"});
  EXPECT_EQ(changed(with_method, "methods/full"), none);
  EXPECT_EQ(changed("imported:mine 0123", "engine"), none);
  EXPECT_EQ(changed_parts("full", {}, then), std::vector<std::string>{"unknown sources"});
  SourceHashes card = then, other = then;
  card["cuda"] = "1";
  other["cuda"] = "2";
  EXPECT_EQ(changed_parts("full", card, other), std::vector<std::string>{"cuda"});
}

TEST(SettingIn, ReadsSettingsFromTheCanonicalName) {
  for (const char* spec : {"snapkv:budget=64,window=8", "minference+snapkv:budget=1/5",
                           "snapkv:budget=64,placement=host,cache_tokens=32"}) {
    const Method method = Method::parse(spec);
    for (const char* name : {"name", "budget", "window", "followup", "none"})
      EXPECT_EQ(setting_in(method.canonical(), name), method.setting(name)) << spec << " " << name;
  }
  EXPECT_EQ(setting_in("gone:old=3,b=4+other", "old"), "3");
  EXPECT_EQ(setting_in("gone:old=3,b=4+other", "name"), "gone+other");
}

/// A sweep of four units, whose store is changed as if another build had written it.
struct ReusedSweep {
  TemporaryDirectory directory;
  std::string manifest = directory.write("m.json", small_manifest()), db = directory.path("s.db");
  Dump first;

  ReusedSweep() {
    directory.write("small.csv", "method,position,value\nfull,end,12.5\n");
    EXPECT_EQ(run().code, 0);
    first = results();
  }
  Finished run() const { return run_program({"run", manifest, "--db", db}); }
  /// Marks all results as computed by a program with other sources: `json` is SQL for its
  /// environment.
  void computed_by(const std::string& json) const {
    execute(db, "INSERT INTO environment (id, json) SELECT 'other', " + json +
                    " FROM environment; "
                    "UPDATE record SET environment = 'other'");
  }
  std::string status() const { return run_program({"status", db}).out; }
  /// The results without the program that computed them.
  Dump results() const {
    Dump out = dump(db);
    for (const char* table : {"environment", "record"}) out.erase(table);
    return out;
  }
};

TEST(Stale, ChangedSourcesOfAMethodCauseRecomputation) {
  const ReusedSweep sweep;
  EXPECT_EQ(sweep.status().find("stale"), std::string::npos) << sweep.status();
  sweep.computed_by("json_set(json, '$.sources.\"methods/snapkv\"', 'x')");
  execute(sweep.db,
          "UPDATE record SET answer = 'old' WHERE cell IN "
          "(SELECT key FROM cell WHERE method LIKE 'snapkv%')");
  EXPECT_NE(sweep.status().find("stale: 4 results of dialogues in 2 cells are of other sources: "
                                "methods/snapkv changed since (snapkv"),
            std::string::npos)
      << sweep.status();
  for (const char* format : {"md", "csv", "tex", "html", "json"}) {
    const Finished report = run_program({"report", sweep.db, "--format", format});
    const std::string text = replace_all(report.out + report.err, "\\allowbreak{}", "");
    EXPECT_NE(text.find("methods/snapkv changed since"), std::string::npos) << format;
  }
  // Stale results remain until they are recomputed.
  EXPECT_GT(count(sweep.db, "SELECT count(*) FROM record WHERE answer = 'old'"), 0);
  const Finished run = sweep.run();
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_NE(run.err.find("methods/snapkv changed since"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("4 units done"), std::string::npos) << run.err;
  EXPECT_EQ(count(sweep.db, "SELECT count(*) FROM record WHERE answer = 'old'"), 0);
  expect_same(sweep.results(), sweep.first);
  EXPECT_EQ(sweep.status().find("stale"), std::string::npos) << sweep.status();
  EXPECT_NE(sweep.run().err.find("0 units done"), std::string::npos);
  // The results of full attention did not change.
  EXPECT_EQ(count(sweep.db, "SELECT count(DISTINCT environment) FROM record"), 2);
}

TEST(Stale, ResultsWithoutSourcesAreRecomputed) {
  const ReusedSweep sweep;
  sweep.computed_by("json_remove(json, '$.sources')");
  EXPECT_NE(sweep.status().find("unknown sources"), std::string::npos) << sweep.status();
  EXPECT_NE(sweep.run().err.find("4 units done"), std::string::npos);
  expect_same(sweep.results(), sweep.first);
}

TEST(Stale, ChangedMetricsCauseRescoringOfStoredAnswers) {
  const ReusedSweep sweep;
  execute(sweep.db, "UPDATE score SET sources = 'x', value = 0.125");
  EXPECT_NE(sweep.status().find("metrics changed since"), std::string::npos) << sweep.status();
  const Finished run = sweep.run();
  EXPECT_NE(run.err.find("0 units done"), std::string::npos) << run.err;
  expect_same(sweep.results(), sweep.first);
  EXPECT_EQ(sweep.status().find("stale"), std::string::npos) << sweep.status();
}

TEST(Stale, ChangedMetricsCauseRescoringByAdditionalMetrics) {
  const ReusedSweep sweep;
  ASSERT_EQ(run_program({"score", sweep.db, "--metric", "exact_match"}).code, 0);
  const Dump scored = sweep.results();
  execute(sweep.db, "UPDATE score SET sources = 'x', value = 0.125 WHERE metric = 'exact_match'");
  EXPECT_NE(sweep.status().find("metrics changed since"), std::string::npos) << sweep.status();
  EXPECT_EQ(sweep.run().code, 0);
  expect_same(sweep.results(), scored);
  EXPECT_EQ(sweep.status().find("stale"), std::string::npos) << sweep.status();
}

TEST(Stale, DialoguesAreRebuiltAndCompared) {
  const ReusedSweep sweep;
  execute(sweep.db, "UPDATE dataset SET sources = 'x'");
  EXPECT_NE(sweep.status().find("datasets changed since"), std::string::npos) << sweep.status();
  EXPECT_NE(sweep.run().err.find("0 units done"), std::string::npos);
  expect_same(sweep.results(), sweep.first);
}

std::string with_limit(int limit, const std::string& name = "limits") {
  return R"({"name": ")" + name + R"(", "models": ["tiny"], "positions": ["begin", "end"],
    "datasets": [{"name": "tiny-fact", "length": 600, "limit": )" +
         std::to_string(limit) + R"(}],
    "methods": ["full", "snapkv:budget=64"], "probes": ["coverage"]})";
}

TEST(Limits, ReuseStoredResultsAtAnyLimit) {
  const TemporaryDirectory directory;
  const std::string db = directory.path("s.db");
  const auto units = [&](int limit, const std::string& name = "limits") {
    const std::string manifest = directory.write("m.json", with_limit(limit, name));
    const int planned =
        run_program({"plan", manifest, "--db", db, "--json"}).json()["units"].get<int>();
    const Finished run = run_program({"run", manifest, "--db", db});
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_NE(run.err.find(fmt::format("{}: {} units done", name, planned)), std::string::npos)
        << run.err;
    return planned;
  };
  EXPECT_EQ(units(3), 12) << "a store that is not there yet is an empty one";
  EXPECT_EQ(units(4), 4);
  EXPECT_EQ(units(6), 8);
  EXPECT_EQ(units(5), 0);
  EXPECT_EQ(units(5, "another-name"), 0);
  EXPECT_EQ(units(3), 0);
  // The same as if it had been run at once.
  const std::string manifest = directory.write("m.json", with_limit(5));
  const std::string fresh = directory.path("fresh.db");
  const Finished again = run_program({"run", manifest, "--db", db, "--quiet"}),
                 whole = run_program({"run", manifest, "--db", fresh, "--quiet"});
  EXPECT_EQ(again.out, whole.out);
}

TEST(Kill, LosesNoFinishedDialogue) {
  const TemporaryDirectory directory;
  const std::string db = directory.path("s.db"),
                    manifest = directory.write("m.json", with_limit(60));
  Program program({"run", manifest, "--db", db, "--workers", "1", "--quiet"});
  const auto stored = [&] {
    return std::filesystem::exists(db) ? count(db, "SELECT count(DISTINCT dialogue) FROM record")
                                       : 0;
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  std::int64_t seen = 0;
  while (seen == 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    try {
      seen = stored();
    } catch (const Error&) {  // its tables are being made
    }
  }
  program.signal(SIGKILL);
  EXPECT_EQ(program.wait().code, 128 + SIGKILL);
  EXPECT_GE(seen, 1);
  EXPECT_LT(seen, 4) << "stored one by one, not by the batch";
  const Json left = run_program({"plan", manifest, "--db", db, "--json"}).json();
  EXPECT_LT(left["units"], 240);
}

TEST(Report, ReadsAStoreWithUnknownMethods) {
  const TemporaryDirectory directory;
  const std::string db = directory.path("s.db"),
                    manifest = directory.write("m.json", R"({"name": "old", "models": ["tiny"],
    "datasets": [{"name": "tiny-fact", "length": 400, "limit": 1}], "methods": ["snapkv:budget=64"],
    "tables": [{"rows": ["method.name", "method.budget"]}]})");
  const Finished run = run_program({"run", manifest, "--db", db});
  ASSERT_EQ(run.code, 0) << run.err;
  Database(db, Database::Mode::kReadWrite)
      .execute(
          "UPDATE experiment SET manifest = replace(manifest, 'snapkv:budget', 'gone:size'); "
          "UPDATE experiment_cell SET method = 'gone:size=64'");
  const Finished report = run_program({"report", db});
  EXPECT_EQ(report.code, 0) << report.err;
  EXPECT_NE(report.out.find("snapkv"), std::string::npos) << report.out;
  EXPECT_NE(report.out.find("64"), std::string::npos) << report.out;
}

}  // namespace
}  // namespace turnbench::test
