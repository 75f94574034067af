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

/// Independent tasks that run beside the caller.  They must own all that they read and write: the
/// caller goes on.
class BackgroundJob {
 public:
  /// `task` is called once with each number below `count`.
  BackgroundJob(std::size_t count, std::function<void(std::size_t)> task);

  /// Returns when all tasks have ended.  Takes part: a thread that waits runs tasks that nobody has
  /// begun.  Rethrows the first exception of a task.  Any thread may call it, at any time.
  void wait();

 private:
  friend class BackgroundTasks;
  /// Runs a task that nobody has begun.  False if there is none.
  bool run_one();

  const std::size_t count_;
  std::function<void(std::size_t)> task_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::condition_variable done_;
  std::size_t ended_ = 0;
  std::exception_ptr error_;
};

/// Threads for work beside the engine's: a method's index is built while later layers are
/// prefilled.  What a job computes must not depend on when it runs.
class BackgroundTasks {
 public:
  /// No threads: jobs run when they are waited for.
  explicit BackgroundTasks(int threads) : size_(static_cast<std::size_t>(threads)) {}
  /// Drops tasks that nobody has begun.
  ~BackgroundTasks();
  BackgroundTasks(const BackgroundTasks&) = delete;
  BackgroundTasks& operator=(const BackgroundTasks&) = delete;

  /// Starts task(0) to task(count - 1).  Jobs begin in the order of `start`; one that everybody has
  /// dropped meanwhile does not begin.  If more than a few are not yet done, this waits for the
  /// oldest: what they hold in memory stays bounded.
  std::shared_ptr<BackgroundJob> start(std::size_t count, std::function<void(std::size_t)> task);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<BackgroundJob>> jobs_;  // those with tasks that nobody has begun
  bool stop_ = false;
  std::size_t size_;
  std::vector<std::thread> threads_;  // started with the first job
};

}  // namespace turnbench
