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

/// A fixed team of threads for fork-join loops.  The calling thread takes part, so a pool of size 1
/// starts no thread.  Threads take tasks dynamically: results must not depend on which thread runs
/// a task.
class ThreadPool {
 public:
  /// `threads`: the size of the team, or 0 for all processors that this process may use.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls task(i, worker) for i in [0, count) and returns when all calls have ended.  `worker` is
  /// in [0, size()); calls that run at the same time have different workers.  Rethrows the first
  /// exception of a task.
  /// @throws Error (runtime) if the team already runs a loop.
  void parallel_for(std::size_t count,
                    const std::function<void(std::size_t task, int worker)>& task);
  /// As `parallel_for`, but may be called from several threads and from tasks of this pool: if the
  /// team already runs a loop, the calling thread runs all tasks itself.
  void parallel_for_if_free(std::size_t count, const std::function<void(std::size_t task)>& task);

 private:
  /// Spins for a short time before a thread sleeps, unless spinning has recently been in vain.
  class Spinner {
   public:
    explicit Spinner(bool may_spin = true) : may_spin_(may_spin) {}
    /// Returns true as soon as condition() is true; false when the thread should sleep.
    template <typename Condition>
    bool until(const Condition& condition);

   private:
    bool may_spin_;
    int failures_ = 0;  ///< consecutive failures
    int rest_ = 0;      ///< number of further waits without spinning
  };

  void work(int worker, Spinner spinner);
  void run_tasks(int worker);
  /// Runs a loop.  The caller has reserved the team; this frees it.
  void run_team(std::size_t count, const std::function<void(std::size_t, int)>& task);

  Spinner spinner_;  ///< for the thread that runs the loop
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

/// The number of processors that this process may use, by its affinity mask.
int available_processors();

}  // namespace turnbench
