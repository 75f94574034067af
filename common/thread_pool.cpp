#include "common/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/error.h"

namespace turnbench {
namespace {

// A decode step forks and joins hundreds of times, a few tens of microseconds apart: a thread spins
// for about this time before it sleeps.
constexpr auto kSpin = std::chrono::microseconds(60);
// If another program occupies the processor of the awaited thread, spinning fails repeatedly, and
// in addition takes a second processor from that program.
constexpr int kFailures = 3;      // consecutive failures, after which 2^failures waits do not spin
constexpr int kMostFailures = 8;  // upper limit of this exponent

}  // namespace

template <typename Condition>
bool ThreadPool::Spinner::until(const Condition& condition) {
  if (!may_spin_) return condition();
  if (rest_ > 0) {
    --rest_;
    return condition();
  }
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (condition()) {
        failures_ = 0;
        return true;
      }
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  } while (std::chrono::steady_clock::now() < end);
  failures_ = std::min(failures_ + 1, kMostFailures);
  if (failures_ >= kFailures) rest_ = 1 << failures_;
  return condition();
}

int available_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

ThreadPool::ThreadPool(int threads) {
  if (threads <= 0) threads = available_processors();
  // With more threads than processors, a spinning thread would displace a working one.
  const Spinner spinner(threads <= available_processors());
  spinner_ = spinner;
  for (int worker = 1; worker < threads; ++worker) {
    workers_.emplace_back([this, worker, spinner] { work(worker, spinner); });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& t : workers_) t.join();
}

void ThreadPool::run_tasks(int worker) {
  try {
    for (std::size_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count_;) {
      (*task_)(i, worker);
    }
  } catch (...) {
    next_.store(count_, std::memory_order_relaxed);  // remaining tasks are not started
    std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
  }
}

void ThreadPool::work(int worker, Spinner spinner) {
  std::uint64_t seen = 0;
  for (;;) {
    const auto called = [&] { return stop_ || generation_ != seen; };
    if (!spinner.until(called)) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, called);
    }
    if (stop_) return;
    seen = generation_;
    run_tasks(worker);
    if (busy_.fetch_sub(1) == 1) {
      std::lock_guard lock(mutex_);  // the caller may be between its check and its wait
      done_.notify_one();
    }
  }
}

void ThreadPool::parallel_for(std::size_t count,
                              const std::function<void(std::size_t, int)>& task) {
  if (count == 0) return;
  if (workers_.empty() || count == 1) {
    for (std::size_t i = 0; i < count; ++i) task(i, 0);
    return;
  }
  if (taken_.exchange(true)) throw runtime_error("ThreadPool: found a nested or concurrent loop");
  run_team(count, task);
}

void ThreadPool::parallel_for_if_free(std::size_t count,
                                      const std::function<void(std::size_t)>& task) {
  if (workers_.empty() || count <= 1 || taken_.exchange(true)) {
    for (std::size_t i = 0; i < count; ++i) task(i);
    return;
  }
  run_team(count, [&](std::size_t i, int) { task(i); });
}

void ThreadPool::run_team(std::size_t count, const std::function<void(std::size_t, int)>& task) {
  {
    std::lock_guard lock(mutex_);
    count_ = count;
    task_ = &task;
    next_ = 0;
    busy_ = static_cast<int>(workers_.size());
    error_ = nullptr;
    ++generation_;
  }
  wake_.notify_all();
  run_tasks(0);
  const auto finished = [&] { return busy_ == 0; };
  if (!spinner_.until(finished)) {
    std::unique_lock lock(mutex_);
    done_.wait(lock, finished);
  }
  const std::exception_ptr error = std::exchange(error_, nullptr);
  taken_ = false;
  if (error) std::rethrow_exception(error);
}

}  // namespace turnbench
