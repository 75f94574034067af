#include "inference/policy/background.h"

#include <utility>

namespace turnbench {
namespace {

constexpr std::size_t kMostWaiting = 4;  // jobs

}  // namespace

BackgroundJob::BackgroundJob(std::size_t count, std::function<void(std::size_t)> task)
    : count_(count), task_(std::move(task)) {}

bool BackgroundJob::run_one() {
  const std::size_t i = next_.fetch_add(1);
  if (i >= count_) return false;
  std::exception_ptr error;
  try {
    task_(i);
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  if (error && !error_) error_ = error;
  if (++ended_ == count_) {
    task_ = nullptr;  // releases its captures
    done_.notify_all();
  }
  return true;
}

void BackgroundJob::wait() {
  while (run_one()) {
  }
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return ended_ == count_; });
  if (error_) std::rethrow_exception(error_);
}

BackgroundTasks::~BackgroundTasks() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    jobs_.clear();
  }
  wake_.notify_all();
  for (std::thread& t : threads_) t.join();
}

std::shared_ptr<BackgroundJob> BackgroundTasks::start(std::size_t count,
                                                      std::function<void(std::size_t)> task) {
  auto job = std::make_shared<BackgroundJob>(count, std::move(task));
  std::shared_ptr<BackgroundJob> oldest;
  {
    const std::lock_guard lock(mutex_);
    if (jobs_.size() >= kMostWaiting) {
      oldest = std::move(jobs_.front());
      jobs_.pop_front();
    }
    jobs_.push_back(job);
    while (threads_.size() < size_) threads_.emplace_back([this] { work(); });
  }
  wake_.notify_all();
  if (oldest && oldest.use_count() > 1) {
    while (oldest->run_one()) {
    }
  }
  return job;
}

void BackgroundTasks::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    const std::shared_ptr<BackgroundJob> job = jobs_.front();
    // The only owners are this thread and the queue, so the result is not needed.
    const bool dropped = job.use_count() == 2;
    lock.unlock();
    const bool ran = !dropped && job->run_one();
    lock.lock();
    if (!ran && !jobs_.empty() && jobs_.front() == job) jobs_.pop_front();
  }
}

}  // namespace turnbench
