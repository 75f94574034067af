#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_set>

namespace turnbench::cuda {

/// Prints a line to stderr once it has existed for `delay`.
class SlowNotice {
 public:
  SlowNotice(const char* line, std::chrono::nanoseconds delay);
  ~SlowNotice();
  SlowNotice(const SlowNotice&) = delete;
  SlowNotice& operator=(const SlowNotice&) = delete;

 private:
  void wait();

  const char* line_;
  const std::chrono::steady_clock::time_point due_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  std::thread thread_;
};

/// The kernels that have been launched.  The first launch of a kernel loads the code of its
/// translation unit; if this contains only PTX for the device, the driver compiles all of it first,
/// which may take a minute.
class KernelLoads {
 public:
  /// The notice to keep during a launch; null if this kernel has been launched before.
  std::unique_ptr<SlowNotice> notice_for(const void* kernel);
  void set_delay(std::chrono::nanoseconds delay) { delay_ = delay; }

 private:
  std::chrono::nanoseconds delay_ = std::chrono::seconds(2);
  std::unordered_set<const void*> launched_;
};

}  // namespace turnbench::cuda
