// Worker processes that exceed the time limit of a unit.

#include <gtest/gtest.h>

#include "harness/experiment/plan.h"
#include "runners/runner.h"
#include "tests/temporary_directory.h"

namespace turnbench::test {
namespace {

TEST(WorkerProcesses, AreKilledAtTheTimeLimit) {
  const Plan plan = make_plan(resolve_experiment(parse_manifest(R"({"name": "m",
    "models": ["tiny"], "isolated": true, "max_new_tokens": 1000000, "positions": ["end"],
    "datasets": [{"name": "tiny-fact", "limit": 1, "length": 100, "turns": 1}],
    "methods": ["full"]})",
                                                                "m"),
                                                 {}, 0));
  const TemporaryDirectory directory;
  Store store = Store::create(directory.path("a.db"));
  store.add_experiment(stored_experiment(plan));
  const RunSummary summary = run_plan(
      plan, store,
      {.workers = 1,
       .threads = 1,
       .processes = true,
       .least_time_limit = std::chrono::seconds(1),
       .time_tolerance = 0},
      [] { return false; }, [](const Progress&) {});
  EXPECT_EQ(summary.progress.units_done, 1u);
  const std::vector<Store::Failure> failures = store.failures("m");
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_TRUE(failures[0].error.starts_with("worker process was killed after"))
      << failures[0].error;
}

}  // namespace
}  // namespace turnbench::test
