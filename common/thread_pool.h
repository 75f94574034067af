#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace turnbench {

/// A fixed team of threads for fork-join loops.  The calling thread works too, so a pool of one
/// starts no thread.  Tasks are handed out dynamically; results must not depend on which thread
/// runs a task, and nothing here makes them.
class ThreadPool {
 public:
  /// `threads` >= 1; 0 means all processors that this process may use.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  /// Runs task(i, worker) for i in [0, count); `worker` is in [0, size()) and unique among the
  /// tasks that run at the same time.  Returns when all are done; the first exception is rethrown.
  /// One loop at a time: throws Error (runtime) where the team is at work.
  void parallel_for(std::size_t count,
                    const std::function<void(std::size_t task, int worker)>& task);
  /// The same for any caller, tasks of this pool and several threads at once among them: where the
  /// team is at work, the calling thread runs its tasks one after the other.
  void parallel_for_if_free(std::size_t count, const std::function<void(std::size_t task)>& task);

 private:
  void work(int worker);
  void run_tasks(int worker);
  /// The loop of a team that the caller has taken; frees it.
  void run_team(std::size_t count, const std::function<void(std::size_t, int)>& task);

  bool may_spin_ = true;
  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<std::size_t> next_{0};
  std::atomic<int> busy_{0};
  std::atomic<bool> stop_{false};
  std::atomic<bool> taken_{false};
  std::size_t count_ = 0;
  const std::function<void(std::size_t, int)>* task_ = nullptr;
  std::exception_ptr error_;
};

/// Processors that this process may use (its affinity mask).
int available_processors();

}  // namespace turnbench
