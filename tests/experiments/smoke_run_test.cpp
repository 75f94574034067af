// Smoke runs, from plan to report, of the manifests of every paper, of the real model and of some
// manifests of tiny.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "harness/store/sqlite.h"
#include "tests/cli/program.h"
#include "tests/experiments/experiment_files.h"
#include "tests/parameter_name.h"

namespace turnbench::test {
namespace {

constexpr const char* kWarning = "Smoke run on stand-ins";

class SmokeRun : public testing::TestWithParam<std::string> {
 protected:
  /// Runs a manifest.  Checks that every cell is stored and nothing failed.
  void run(const std::string& name, const Arguments& more) {
    const Manifest manifest = load_experiment(name);
    Arguments arguments = {
        "run", manifest.path.string(), "--smoke", "--db", db_, "--workers", "1", "--threads", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished run = run_program(arguments);
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_NE(run.out.find(kWarning), std::string::npos);
    const Json status = run_program({"status", db_, "--json"}).json();
    ASSERT_EQ(status.size(), 1u);
    EXPECT_EQ(status[0]["experiment"], manifest.name + ".smoke");
    EXPECT_EQ(status[0]["pending"], 0);
    EXPECT_EQ(status[0]["failed"], 0);
    const Json report = run_program({"report", db_, "--json"}).json();
    EXPECT_NE(report["smoke"].get<std::string>().find(kWarning), std::string::npos);
    std::set<std::string> models, labels;
    for (const DatasetEntry& dataset : manifest.datasets) labels.insert(dataset.label);
    for (const Json& cell : report["cells"]) {
      EXPECT_GT(cell["n"].get<int>() + cell.value("without_value", 0), 0) << cell["method"];
      EXPECT_EQ(cell["failed"], 0);
      models.insert(cell["model"]);
      EXPECT_TRUE(labels.contains(cell["dataset"]));
    }
    EXPECT_EQ(models.size(), manifest.models.size()) << "labels stay";
    for (const Json& note : report.value("notes", Json::array()))
      EXPECT_EQ(note.get<std::string>().find("belong to no cell"), std::string::npos) << note;
    const Database store(db_, Database::Mode::kReadWrite);
    Statement cards = store.prepare("SELECT count(*) FROM protocol WHERE json NOT LIKE ?1");
    cards << "%" + std::string(kWarning) + "%";
    ASSERT_TRUE(cards.next());
    EXPECT_EQ(cards.integer(0), 0) << "every protocol card says what it is";
  }

  TemporaryDirectory directory_;
  std::string db_ = directory_.path("smoke.db");
};

TEST_P(SmokeRun, StoresEveryCellAndIsMarked) {
  const std::string head = TURNBENCH_SOURCE_DIR "/models/smollm2/retrieval_head";
  if (GetParam().starts_with("smollm2/retrieval-head") && !std::filesystem::exists(head))
    GTEST_SKIP() << "make retrieval-head has not made " << head;
  run(GetParam(), {});
  static const std::set<std::string> shown = {"loopserve/figure1.json", "loopserve/table4.json",
                                              "sablock/figure7.json", "sablock/table1.json"};
  if (!shown.contains(GetParam())) return;
  for (const char* format : {"md", "tex", "html", "svg"}) {
    const Finished report = run_program({"report", db_, "--format", format});
    EXPECT_EQ(report.code, 0) << report.err;
    EXPECT_NE(report.out.find(kWarning), std::string::npos) << format;
  }
  for (const Arguments& which : {Arguments{"--long"}, Arguments{"--table", "1"}}) {
    Arguments arguments = {"report", db_, "--format", "csv"};
    arguments.insert(arguments.end(), which.begin(), which.end());
    const Finished report = run_program(arguments);
    EXPECT_EQ(report.code, 0) << report.err;
    EXPECT_NE(report.err.find(kWarning), std::string::npos);
    EXPECT_EQ(report.out.find(kWarning), std::string::npos) << "a csv has no comments";
  }
}

INSTANTIATE_TEST_SUITE_P(Papers, SmokeRun, testing::ValuesIn(paper_manifests()), parameter_name);
INSTANTIATE_TEST_SUITE_P(Smollm2, SmokeRun, testing::ValuesIn(smollm2_manifests()), parameter_name);

INSTANTIATE_TEST_SUITE_P(Tiny, SmokeRun,
                         testing::Values("quickstart-selection.json",
                                         "quickstart-selection-recall.json", "side-by-side.json",
                                         "retrieval-head.json", "real/ruler-4k.json",
                                         "real/ruler-4k-agnostic.json",
                                         "real/ruler-4k-prefills.json"),
                         parameter_name);

// Real prompts are longer than any window, those of smoke runs are not.  Methods must accept shares
// of either.
TEST(SmokeRunOfShares, RunsEveryMethod) {
  const TemporaryDirectory directory;
  Json manifest = {{"name", "shares"},
                   {"models", "tiny"},
                   {"datasets", {"tiny-fact", "tiny-label"}},
                   {"history", {"reprefill", "recompress"}},
                   {"methods", Json::array()}};
  for (const MethodInfo& info : all_methods()) {
    const bool has_budget =
        std::any_of(info.parameters.begin(), info.parameters.end(), [](const ParameterInfo& p) {
          return p.kind == ParameterInfo::Kind::kBudget && p.name == "budget";
        });
    for (const char* share : {"1/4", "0.2", "30%", "1/10", "1.0"}) {
      if (has_budget) manifest["methods"].push_back(std::string(info.name) + ":budget=" + share);
    }
  }
  const std::string file = directory.write("shares.json", manifest.dump()),
                    db = directory.path("s.db");
  const Finished run =
      run_program({"run", file, "--smoke", "--db", db, "--workers", "1", "--threads", "1"});
  ASSERT_EQ(run.code, 0) << run.err;
  const Json report = run_program({"report", db, "--json"}).json();
  for (const Json& cell : report["cells"]) EXPECT_EQ(cell["failed"], 0) << cell["method"];
  EXPECT_GT(report["cells"].size(), 100u);
}

class SmokeRunOnRecords : public SmokeRun {};

// If the files of a dataset are given, a smoke run uses their first records instead of stand-ins.
TEST_P(SmokeRunOnRecords, StoresEveryCell) {
  const std::string records = TURNBENCH_SOURCE_DIR "/../shared/data/longbench";
  if (!std::filesystem::exists(records)) GTEST_SKIP() << "no records of LongBench in " << records;
  run(GetParam(), {"--data", "longbench=" + records});
  const Database store(db_, Database::Mode::kReadWrite);
  Statement sets = store.prepare("SELECT count(*) FROM dataset WHERE description LIKE 'tiny%'");
  ASSERT_TRUE(sets.next());
  EXPECT_EQ(sets.integer(0), 0) << "none is made up";
}

INSTANTIATE_TEST_SUITE_P(Papers, SmokeRunOnRecords,
                         testing::Values("loopserve/figure7.json", "sablock/table3.json"),
                         [](const auto& info) { return info.param.substr(0, 7); });

}  // namespace
}  // namespace turnbench::test
