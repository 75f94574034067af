#pragma once

#include <cstddef>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

#include "sanitizers.h"

namespace emulation {

/// A stack and the execution state on it.  Switching costs a few nanoseconds.
class Fiber {
 public:
  /// Number of stacks: the number of threads of the blocks that the thread sanitizer distinguishes.
#ifdef EMULATION_THREAD_SANITIZER
  static constexpr int kMany = 2 * 1024;
#else
  static constexpr int kMany = 1024;
#endif

  /// The running stack, which this object does not own.
  Fiber() = default;
  /// Stack `number`, below kMany.  The tops of adjacent stacks are in different cache sets.
  explicit Fiber(int number);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The next switch to this fiber calls `entry`, which must not return.
  void start(void (*entry)());
  /// Switches from this fiber, which is running, to another; returns when a fiber switches back.
  /// For the thread sanitizer, a switch orders nothing (thread_order.h).
  void switch_to(Fiber& other);
  /// The same from the program's own stack, to the first fiber.
  void enter(Fiber& first);

 private:
  void* stack_pointer_ = nullptr;
#if !defined(__x86_64__) && !defined(__aarch64__)
  ucontext_t context_;
#endif
  std::byte* mapping_ = nullptr;
  std::size_t stagger_ = 0;
  [[maybe_unused]] void* thread_ = nullptr;  ///< this fiber for the thread sanitizer
};

}  // namespace emulation
