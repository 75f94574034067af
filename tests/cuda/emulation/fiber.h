#pragma once

#include <cstddef>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

namespace emulation {

/// A stack and where its execution stands.  Switching costs a few nanoseconds and tells the
/// sanitizers.
class Fiber {
 public:
  /// The stack that is running: it has none of its own.
  Fiber() = default;
  /// `stagger` spreads the tops of stacks over the sets of a processor's cache.
  explicit Fiber(std::size_t stagger);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The next switch to this fiber calls `entry`, which must not return.
  void start(void (*entry)());
  /// Leaves this fiber, which is running, for another; returns when something switches back, never
  /// if this fiber is `done`.
  void switch_to(Fiber& other, bool done);
  /// To be called first by `entry`; `from` is the fiber that was left.
  void entered(Fiber& from);

 private:
  void* stack_pointer_ = nullptr;
#if !defined(__x86_64__) && !defined(__aarch64__)
  ucontext_t context_;
#endif
  std::byte* mapping_ = nullptr;
  std::size_t stagger_ = 0;
  // What the sanitizers know this fiber by.
  const void* bottom_ = nullptr;
  std::size_t size_ = 0;
  [[maybe_unused]] void* fake_stack_ = nullptr;
  [[maybe_unused]] void* thread_ = nullptr;
  [[maybe_unused]] int starts_ = 0;
};

}  // namespace emulation
