#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace turnbench {

/// Independent tasks that run concurrently with the caller.  They must own all data that they read
/// and write, because a job may be dropped while its tasks run.
class BackgroundJob {
 public:
  /// `task` is called once with each number below `count`.
  BackgroundJob(std::size_t count, std::function<void(std::size_t)> task);

  /// Returns when all tasks have ended.  The waiting thread runs pending tasks itself.  Rethrows
  /// the first exception of a task.  May be called by any thread at any time.
  void wait();

 private:
  friend class BackgroundTasks;
  /// Runs one pending task.  Returns false if none is left.
  bool run_one();

  const std::size_t count_;
  std::function<void(std::size_t)> task_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::condition_variable done_;
  std::size_t ended_ = 0;
  std::exception_ptr error_;
};

/// Threads for tasks that run while the engine computes: for example, a method builds the index of
/// a layer while later layers are prefilled.  The result of a job must not depend on when it runs.
class BackgroundTasks {
 public:
  /// threads: number of threads; with 0, jobs run in `wait`, or in `start` if several jobs are
  /// pending.
  explicit BackgroundTasks(int threads) : size_(static_cast<std::size_t>(threads)) {}
  /// Drops pending tasks.
  ~BackgroundTasks();
  BackgroundTasks(const BackgroundTasks&) = delete;
  BackgroundTasks& operator=(const BackgroundTasks&) = delete;

  /// Starts task(0) to task(count - 1).  Jobs begin in the order of `start`; a job without
  /// remaining owners is skipped.  If several earlier jobs have pending tasks, `start` runs the
  /// pending tasks of the oldest one itself.  This bounds the memory that jobs use.
  std::shared_ptr<BackgroundJob> start(std::size_t count, std::function<void(std::size_t)> task);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<BackgroundJob>> jobs_;  // jobs with pending tasks
  bool stop_ = false;
  std::size_t size_;
  std::vector<std::thread> threads_;  // started with the first job
};

}  // namespace turnbench
