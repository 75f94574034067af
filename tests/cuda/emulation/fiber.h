#pragma once

#include <cstddef>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

#include "sanitizers.h"

namespace emulation {

/// A stack and where its execution stands.  Switching costs a few nanoseconds.
class Fiber {
 public:
  /// Stacks; as many as the blocks have threads that the thread sanitizer tells apart.
#ifdef EMULATION_THREAD_SANITIZER
  static constexpr int kMany = 2 * 1024;
#else
  static constexpr int kMany = 1024;
#endif

  /// The stack that is running: it has none of its own.
  Fiber() = default;
  /// Stack `number`, below kMany.  The tops of neighbours lie in different sets of a processor's
  /// cache.
  explicit Fiber(int number);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The next switch to this fiber calls `entry`, which must not return.
  void start(void (*entry)());
  /// Leaves this fiber, which is running, for another; returns when something switches back.  The
  /// thread sanitizer takes no order from it (thread_order.h).
  void switch_to(Fiber& other);
  /// The same from the program's own stack, to the first of those that are to run.
  void enter(Fiber& first);

 private:
  void* stack_pointer_ = nullptr;
#if !defined(__x86_64__) && !defined(__aarch64__)
  ucontext_t context_;
#endif
  std::byte* mapping_ = nullptr;
  std::size_t stagger_ = 0;
  [[maybe_unused]] void* thread_ = nullptr;  ///< what the thread sanitizer knows this fiber by
};

}  // namespace emulation
