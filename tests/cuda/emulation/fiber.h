#pragma once

#include <cstddef>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

namespace emulation {

/// A stack and where its execution stands.  Switching costs a few nanoseconds.
class Fiber {
 public:
  static constexpr int kMany = 1024;  ///< stacks; as many as a block has threads

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
  /// Leaves this fiber, which is running, for another; returns when something switches back.
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
  [[maybe_unused]] int starts_ = 0;
};

}  // namespace emulation
