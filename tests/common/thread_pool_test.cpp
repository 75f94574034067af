#include "common/thread_pool.h"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <thread>

#include "common/error.h"

namespace turnbench {
namespace {

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (std::size_t count : {0, 1, 2, 17, 1000}) {
      std::vector<std::atomic<int>> runs(count);
      pool.parallel_for(count, [&](std::size_t i, int worker) {
        ASSERT_LT(worker, threads);
        ++runs[i];
      });
      for (const auto& r : runs) EXPECT_EQ(r, 1);
    }
  }
}

TEST(ThreadPool, WorkersAreUniqueWhileTheyRun) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> busy(4);
  for (int round = 0; round < 50; ++round) {
    pool.parallel_for(64, [&](std::size_t, int worker) {
      EXPECT_EQ(busy[worker]++, 0);
      --busy[worker];
    });
  }
}

TEST(ThreadPool, FirstExceptionIsRethrownAndThePoolStaysUsable) {
  ThreadPool pool(3);
  EXPECT_THROW(pool.parallel_for(100,
                                 [](std::size_t i, int) {
                                   if (i == 42) throw std::runtime_error("42");
                                 }),
               std::runtime_error);
  std::atomic<int> sum{0};
  pool.parallel_for(10, [&](std::size_t i, int) { sum += static_cast<int>(i); });
  EXPECT_EQ(sum, 45);
}

TEST(ThreadPool, RejectsNestedAndConcurrentLoops) {
  ThreadPool pool(3);
  EXPECT_THROW(pool.parallel_for(
                   8, [&](std::size_t, int) { pool.parallel_for(8, [](std::size_t, int) {}); }),
               Error);
  pool.parallel_for(8, [&](std::size_t, int) { pool.parallel_for(1, [](std::size_t, int) {}); });
}

TEST(ThreadPool, OptionalLoopRunsInsideOtherLoops) {
  ThreadPool pool(3);
  std::atomic<int> runs{0};
  const auto loop = [&] { pool.parallel_for_if_free(100, [&](std::size_t) { ++runs; }); };
  pool.parallel_for(20, [&](std::size_t, int) { loop(); });
  EXPECT_EQ(runs, 2000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) loop();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(runs, 22000);
  EXPECT_THROW(pool.parallel_for_if_free(100, [](std::size_t) { throw std::runtime_error("x"); }),
               std::runtime_error);
  loop();
  EXPECT_EQ(runs, 22100);
}

}  // namespace
}  // namespace turnbench
