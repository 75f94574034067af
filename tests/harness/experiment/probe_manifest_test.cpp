// Probes through the program: manifests, store, tables, and the figures of this project.

#include <gtest/gtest.h>

#include <filesystem>

#include "common/file.h"
#include "harness/experiment/manifest.h"
#include "tests/cli/program.h"
#include "tests/harness/store/store_dump.h"
#include "tests/parameter_name.h"

namespace turnbench::test {
namespace {

Json small_probe_manifest() {
  return {
      {"name", "small"},
      {"models", {"tiny"}},
      {"datasets", {{{"name", "tiny-list"}, {"limit", 3}, {"length", 100}, {"turns", 1}}}},
      {"probes",
       {"coverage:eta=0.1", {{"name", "line-overlap"}, {"eta", 0.2}}, "token-overlap:window=8"}},
      {"max_new_tokens", 8}};
}

class ProbeManifest : public testing::Test {
 protected:
  Finished run(const Json& manifest, const Arguments& more = {}) {
    Arguments arguments = {"run", directory_.write("m.json", manifest.dump()), "--db", db_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  }
  Json report() const { return run_program({"report", db_, "--json"}).json(); }

  TemporaryDirectory directory_;
  std::string db_ = directory_.path("a.db");
};

TEST_F(ProbeManifest, RunsReportsAndRunsNothingTwice) {
  const Finished first = run(small_probe_manifest());
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(count(db_, "SELECT count(*) FROM record"), 9);
  EXPECT_EQ(count(db_, "SELECT count(*) FROM score WHERE value < 0 OR value > 1"), 0);
  EXPECT_NE(first.out.find("| line-overlap:eta=0.2 |"), std::string::npos) << first.out;
  EXPECT_EQ(first.out.find("kept"), std::string::npos) << "a probe keeps nothing";
  const Json cells = report()["cells"];
  ASSERT_EQ(cells.size(), 3u);
  EXPECT_EQ(cells[0]["metric"], "coverage");
  EXPECT_EQ(cells[0]["n"], 3);
  EXPECT_GT(cells[0]["mean"], 30) << "stored as a share, printed x100";
  EXPECT_LT(cells[0]["mean"], 100);
  const Dump before = dump(db_, true);
  const Finished again = run(small_probe_manifest());
  EXPECT_NE(again.err.find("0 units done"), std::string::npos) << again.err;
  EXPECT_EQ(again.out, first.out);
  expect_same(dump(db_, true), before);
}

TEST_F(ProbeManifest, ProbesHaveNoDifferenceToAMethod) {
  Json manifest = small_probe_manifest();
  manifest["methods"] = {"full", "snapkv:budget=40,window=4"};
  manifest["tables"] = {
      {{"rows", {"method"}}, {"columns", {"dataset"}}, {"difference_to", "full"}}};
  ASSERT_EQ(run(manifest).code, 0);
  const Json found = report();
  for (const Json& entry : found["tables"][0]["entries"])
    EXPECT_EQ(entry.contains("difference"), entry["row"][0] == "snapkv:budget=40,window=4")
        << entry;
  for (const Json& cell : found["cells"])
    EXPECT_EQ(cell.contains("differences"), cell["method"] == "snapkv:budget=40,window=4") << cell;
}

// Results do not depend on workers and threads.
TEST_F(ProbeManifest, WorkersAndThreadsDoNotMatter) {
  ASSERT_EQ(run(small_probe_manifest(), {"--workers", "1", "--threads", "1"}).code, 0);
  const Dump one = dump(db_);
  std::filesystem::remove(db_);
  ASSERT_EQ(run(small_probe_manifest(), {"--workers", "3", "--threads", "2"}).code, 0);
  expect_same(dump(db_), one);
}

// A shorter run is part of the full one, except for probes that compare all dialogues: with fewer
// dialogues their value differs, so they have a separate cell.
TEST_F(ProbeManifest, LimitedRuns) {
  ASSERT_EQ(run(small_probe_manifest(), {"--limit", "2"}).code, 0);
  EXPECT_EQ(count(db_, "SELECT count(*) FROM record"), 6);
  const Finished rest = run(small_probe_manifest());
  EXPECT_EQ(rest.code, 0);
  EXPECT_NE(rest.err.find("2 units done"), std::string::npos) << rest.err;
  EXPECT_EQ(count(db_, "SELECT count(*) FROM record"), 6 + 1 + 1 + 3);
  EXPECT_EQ(count(db_, "SELECT count(DISTINCT cell) FROM record"), 4);
  const Json grown = report();
  std::filesystem::remove(db_);
  ASSERT_EQ(run(small_probe_manifest()).code, 0);
  EXPECT_EQ(report(), grown);
}

// Methods and probes can be combined; each computes only its cells.
TEST_F(ProbeManifest, RunsWithMethods) {
  Json manifest = small_probe_manifest();
  manifest["methods"] = {"full"};
  manifest["history"] = {"reprefill", "recompress"};
  manifest["tables"] = {{{"rows", {"method"}}, {"columns", {"metric"}}}};
  const Finished both = run(manifest);
  ASSERT_EQ(both.code, 0) << both.err;
  EXPECT_EQ(report()["cells"].size(), 2u + 3u) << "no probe has a history";
  EXPECT_NE(both.out.find("kept"), std::string::npos) << both.out;
  const Json plan =
      run_program({"plan", directory_.write("m.json", manifest.dump()), "--json"}).json();
  EXPECT_EQ(plan["cells"], 5);
  EXPECT_EQ(plan["units"], 3 + 3 + 1);
  EXPECT_GT(plan["prompt_tokens"], 0);
}

TEST_F(ProbeManifest, MissingValuesAreNotFailures) {
  Json manifest = small_probe_manifest();
  manifest["probes"] = {"window-overlap:window=4,index=0", "window-overlap:window=4,index=99"};
  const Finished done = run(manifest);
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("3 turns have no value"), std::string::npos) << done.out;
  const Json cells = report()["cells"];
  EXPECT_EQ(cells[0]["n"], 3);
  EXPECT_FALSE(cells[0].contains("without_value"));
  EXPECT_EQ(cells[1]["n"], 0);
  EXPECT_EQ(cells[1]["failed"], 0);
  EXPECT_EQ(cells[1]["without_value"], 3);
  EXPECT_TRUE(cells[1]["mean"].is_null());
  const Json status = run_program({"status", db_, "--json"}).json();
  EXPECT_EQ(status[0]["failed"], 0);
  EXPECT_EQ(status[0]["pending"], 0);
  for (const char* format : {"tex", "html", "svg"})
    EXPECT_EQ(run_program({"report", db_, "--format", format}).code, 0) << format;
  EXPECT_EQ(run_program({"report", db_, "--format", "csv", "--table", "1"}).code, 0);
  EXPECT_NE(run(manifest).err.find("0 units done"), std::string::npos) << "not asked again";
}

// "head" is a query head in some probes, but a weights directory in a method.
TEST_F(ProbeManifest, MethodSettingsAreNotProbeSettings) {
  Json manifest = small_probe_manifest();
  manifest["probes"] = {"recall:method=specontext:budget=24,feat=prev"};
  const Finished done = run(manifest);
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(report()["cells"][0]["n"], 3);
}

TEST_F(ProbeManifest, FailuresAreRecordedAndRetried) {
  Json manifest = small_probe_manifest();
  manifest["probes"] = {"coverage", "coverage:layer=50"};
  manifest["smoke"] = "A small model stands in.";  // otherwise it is refused before it runs
  const Finished failing = run(manifest);
  EXPECT_EQ(failing.code, 1);
  EXPECT_NE(failing.err.find("layer: found 50, expected at most"), std::string::npos);
  EXPECT_EQ(report()["cells"][1]["failed"], 3);
  const Finished retry = run_program({"status", db_, "retry"});
  EXPECT_EQ(retry.code, 1);
  EXPECT_NE(retry.err.find("3 failed records forgotten"), std::string::npos) << retry.err;
  EXPECT_EQ(count(db_, "SELECT count(*) FROM record"), 6);
}

/// A case of the small manifest with other probes, or without the key.
Malformed probes(const char* name, const Json& probes, const char* expected) {
  return {name,
          [probes](const TemporaryDirectory& d) -> Arguments {
            Json json = small_probe_manifest();
            json["probes"] = probes;
            if (probes.is_null()) json.erase("probes");
            return {"run", d.write("m.json", json.dump()), "--db", d.path("a.db")};
          },
          expected};
}

TEST(MalformedProbes, Refused) {
  const Malformed cases[] = {
      probes("unknown probe", {"covrage"},
             "/probes/0: found the unknown probe \"covrage\", expected \"coverage\""),
      probes("value out of range", {"coverage:eta=2"}, "/probes/0: coverage: eta: found 2"),
      probes("unknown parameter", {{{"name", "coverage"}, {"eto", 1}}},
             "the unknown parameter \"eto\""),
      probes("probe twice", {"coverage", "coverage:eta=0.1"}, "expected each probe once"),
      probes("no probe", Json::array(), "expected at least one probe"),
      probes("a number", {7}, "/probes/0: found 7, expected a probe"),
      probes("no name", {{{"eta", 1}}}, "/probes/0"),
      probes("neither methods nor probes", nullptr, "\"methods\""),
  };
  expect_refusals(cases);
}

TEST(ProbeList, ListsAndDescribesAllProbes) {
  const Json probes = run_program({"list", "probes", "--json"}).json();
  EXPECT_GE(probes.size(), 9u);
  const std::string text = run_program({"list", "probes"}).out;
  for (const Json& probe : probes) {
    const std::string name = probe["name"];
    EXPECT_NE(text.find(name), std::string::npos);
    const Finished described = run_program({"describe", "probe", name});
    EXPECT_EQ(described.code, 0);
    EXPECT_TRUE(described.out.starts_with(name + "\n"));
    EXPECT_EQ(run_program({"describe", "probe", name, "--json"}).json(), probe);
  }
  const Finished unknown = run_program({"describe", "probe", "covrage"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("expected \"coverage\""), std::string::npos) << unknown.err;
}

class ProbeFigure : public testing::TestWithParam<std::string> {};

// Each figure from end to end on the embedded model: every cell is measured or has an error.
TEST_P(ProbeFigure, RunsOnStandIns) {
  const std::string path = TURNBENCH_SOURCE_DIR "/experiments/" + GetParam();
  Json manifest = parse_json(read_file(path), path);
  const TemporaryDirectory d;
  for (Json& model : manifest["models"]) model["path"] = "tiny";
  manifest["datasets"] = {
      {{"name", "tiny-list"}, {"limit", 2}, {"length", 120}, {"turns", 1}, {"seed", 5}}};
  manifest["max_new_tokens"] = 16;
  if (manifest.contains("published")) {
    const std::string csv = manifest["published"];
    d.write(csv, read_file(std::filesystem::path(path).parent_path() / csv));
  }
  const std::string db = d.path("a.db");
  const Finished done = run_program({"run", d.write("m.json", manifest.dump()), "--db", db});
  ASSERT_EQ(done.code, 0) << done.err;
  const Json cells = run_program({"report", db, "--json"}).json()["cells"];
  const std::size_t models = manifest["models"].size(),
                    positions = manifest.value("positions", Json::array({1})).size();
  EXPECT_EQ(cells.size(), models * positions * manifest["probes"].size());
  int measured = 0;
  for (const Json& cell : cells) {
    EXPECT_EQ(cell["failed"], 0);
    EXPECT_EQ(cell["n"].get<int>() + cell.value("without_value", 0), 2) << cell["method"];
    measured += cell["n"].get<int>();
  }
  EXPECT_GT(measured, 0);
}

INSTANTIATE_TEST_SUITE_P(Papers, ProbeFigure,
                         testing::Values("loopserve/figure1.json", "loopserve/figure2.json",
                                         "loopserve/figure3.json", "loopserve/figure4a.json",
                                         "loopserve/figure5a.json", "loopserve/figure5b.json",
                                         "sablock/figure2.json", "sablock/figure9.json"),
                         parameter_name);

}  // namespace
}  // namespace turnbench::test
