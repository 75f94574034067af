// Worker processes that exceed the time limit of a unit, or do not answer.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "common/clock.h"
#include "harness/experiment/plan.h"
#include "harness/store/claims.h"
#include "runners/runner.h"
#include "tests/child_processes.h"
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

/// A run whose only unit is claimed by another one, so that its worker waits.
class StoppedWorker : public testing::Test {
 protected:
  StoppedWorker() {
    store_.add_experiment(stored_experiment(plan_));
    claims_.claim(plan_.units.at(0).key);
  }

  /// Runs the plan.  `stopped` is called after the waiting worker has been stopped; when it returns
  /// true, the run ends.
  RunSummary run(const std::function<bool()>& stopped) {
    std::optional<Clock::time_point> waits;
    bool is_stopped = false;
    const auto should_stop = [&] {
      if (is_stopped) return stopped();
      for (const int child : children_of(getpid())) {
        if (state_of(child) != 'S') {
          waits.reset();
        } else if (!waits) {
          waits = Clock::now();
        } else if (seconds_since(*waits) > 0.5) {
          is_stopped = kill(child, SIGSTOP) == 0;
        }
      }
      return false;
    };
    return run_plan(plan_, store_,
                    {.workers = 1,
                     .threads = 1,
                     .processes = true,
                     .least_time_limit = std::chrono::seconds(1)},
                    should_stop, [](const Progress&) {});
  }

  const Plan plan_ = make_plan(
      resolve_experiment(parse_manifest(R"({"name": "m", "models": ["tiny"], "max_new_tokens": 4,
        "datasets": [{"name": "tiny-fact", "limit": 1, "length": 100, "turns": 1}],
        "positions": ["end"], "methods": ["full"]})",
                                        "m"),
                         {}, 0));
  const TemporaryDirectory directory_;
  Store store_ = Store::create(directory_.path("a.db"));
  // Of another machine, so that its end is unknown.
  Claims claims_{directory_.path("a.db"), kLease, "elsewhere 1 1"};
};

TEST_F(StoppedWorker, IsReplacedIfThereIsWork) {
  const RunSummary summary = run([&] {
    claims_.release(plan_.units.at(0).key);
    return false;
  });
  EXPECT_EQ(summary.progress.units_done, 1u);
  EXPECT_EQ(summary.elsewhere, 0u);
  EXPECT_TRUE(store_.failures("m").empty());
}

TEST_F(StoppedWorker, DoesNotKeepARunFromItsEnd) {
  const auto start = Clock::now();
  const RunSummary summary = run([] { return true; });
  EXPECT_TRUE(summary.stopped);
  EXPECT_LT(seconds_since(start), 60);
}

}  // namespace
}  // namespace turnbench::test
