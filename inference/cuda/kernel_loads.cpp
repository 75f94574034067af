#include "inference/cuda/kernel_loads.h"

#include <fmt/format.h>

#include <cstdio>

namespace turnbench::cuda {

SlowNotice::SlowNotice(const char* line, std::chrono::nanoseconds delay)
    : line_(line), due_(std::chrono::steady_clock::now() + delay), thread_([this] { wait(); }) {}

SlowNotice::~SlowNotice() {
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void SlowNotice::wait() {
  std::unique_lock lock(mutex_);
  ended_.wait_until(lock, due_, [this] { return has_ended_; });
  if (std::chrono::steady_clock::now() >= due_) fmt::print(stderr, "{}\n", line_);
}

std::unique_ptr<SlowNotice> KernelLoads::notice_for(const void* kernel) {
  if (!launched_.insert(kernel).second) return nullptr;
  return std::make_unique<SlowNotice>("compiling kernels for this GPU ...", delay_);
}

}  // namespace turnbench::cuda
