#include "inference/policy/background.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <stdexcept>

#include "inference/policy/layer_memo.h"

namespace turnbench {
namespace {

class Background : public testing::TestWithParam<int> {
 protected:
  BackgroundTasks tasks_{GetParam()};
};

TEST_P(Background, RunsEachTaskOnce) {
  std::vector<std::atomic<int>> runs(1000);
  std::vector<std::shared_ptr<BackgroundJob>> jobs;
  for (std::size_t j = 0; j < 10; ++j) {  // more than the queue can hold
    jobs.push_back(tasks_.start(100, [&runs, j](std::size_t i) { ++runs[100 * j + i]; }));
  }
  for (const auto& job : jobs) job->wait();
  for (const auto& job : jobs) job->wait();  // again: no effect
  for (const auto& r : runs) EXPECT_EQ(r, 1);
}

TEST_P(Background, RethrowsTheFirstError) {
  const auto job = tasks_.start(20, [](std::size_t i) {
    if (i == 7) throw std::runtime_error("seven");
  });
  EXPECT_THROW(job->wait(), std::runtime_error);
  EXPECT_NO_THROW(tasks_.start(0, [](std::size_t) {})->wait());
}

// The memory of a job is released with its last task, and a dropped job does not block the others.
TEST_P(Background, ReleasesCapturedObjects) {
  const auto held = std::make_shared<int>(3);
  const auto job = tasks_.start(5, [held](std::size_t) {});
  job->wait();
  EXPECT_EQ(held.use_count(), 1);
  for (int i = 0; i < 20; ++i) tasks_.start(3, [held](std::size_t) {});
  std::atomic<int> runs = 0;
  tasks_.start(3, [&](std::size_t) { ++runs; })->wait();
  EXPECT_EQ(runs, 3);
}

INSTANTIATE_TEST_SUITE_P(Threads, Background, testing::Values(0, 1, 3),
                         testing::PrintToStringParamName());

TEST(LayerMemo, BuildsOncePerKeyAndType) {
  LayerMemo memo;
  int builds = 0;
  const auto build = [&] {
    ++builds;
    return std::make_shared<int>(builds);
  };
  const auto first = memo.get<int>("a", build);
  EXPECT_EQ(memo.get<int>("a", build), first);
  EXPECT_EQ(*memo.get<int>("b", build), 2);
  EXPECT_EQ(*memo.get<double>("a", [] { return std::make_shared<double>(0.5); }), 0.5);
  EXPECT_EQ(builds, 2);
}

}  // namespace
}  // namespace turnbench
