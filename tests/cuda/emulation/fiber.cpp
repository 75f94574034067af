#include "fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#include "sanitizers.h"

#ifdef EMULATION_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef EMULATION_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace emulation {
namespace {

#if defined(EMULATION_ADDRESS_SANITIZER) || defined(EMULATION_THREAD_SANITIZER)
constexpr std::size_t kStackBytes = std::size_t{256} << 10;
#else
constexpr std::size_t kStackBytes = std::size_t{64} << 10;
#endif

std::size_t guard_bytes() {
  static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return page;
}

std::size_t stack_stride() {
  return guard_bytes() + kStackBytes;
}

/// The addresses of all stacks; a page of memory is allocated at its first use.
std::byte* reserved_stacks() {
  static std::byte* const begin = [] {
    void* memory = mmap(nullptr, Fiber::kMany * stack_stride(), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return static_cast<std::byte*>(memory);
  }();
  return begin;
}

}  // namespace
}  // namespace emulation

// Saves the callee-saved registers and the stack pointer, and restores those of the other stack.
#if defined(__x86_64__)
extern "C" void turnbench_switch_stacks(void** from, void* to);
asm(R"(
  .text
  .p2align 4
  .globl turnbench_switch_stacks
  .type turnbench_switch_stacks, @function
turnbench_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size turnbench_switch_stacks, . - turnbench_switch_stacks
)");
#elif defined(__aarch64__)
extern "C" void turnbench_switch_stacks(void** from, void* to);
asm(R"(
  .text
  .p2align 4
  .globl turnbench_switch_stacks
  .type turnbench_switch_stacks, %function
turnbench_switch_stacks:
  sub sp, sp, #160
  stp x19, x20, [sp]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
  .size turnbench_switch_stacks, . - turnbench_switch_stacks
)");
#endif

namespace emulation {

Fiber::Fiber(int number) : stagger_(static_cast<std::size_t>(number % 61) * 192) {
  if (number >= kMany) throw std::bad_alloc();
  mapping_ = reserved_stacks() + static_cast<std::size_t>(number) * stack_stride();
  mprotect(mapping_, guard_bytes(), PROT_NONE);  // an overflow faults immediately
#ifdef EMULATION_THREAD_SANITIZER
  thread_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#ifdef EMULATION_THREAD_SANITIZER
  if (mapping_ != nullptr) __tsan_destroy_fiber(thread_);
#endif
}

void Fiber::start(void (*entry)()) {
  [[maybe_unused]] std::byte* bottom = mapping_ + guard_bytes();
  std::byte* top = mapping_ + stack_stride() - stagger_;
#ifdef EMULATION_ADDRESS_SANITIZER
  // Frames that never returned have poisoned the stack from the fiber's last stack pointer on.
  const auto* stood =
      stack_pointer_ == nullptr ? bottom : static_cast<const std::byte*>(stack_pointer_);
  __asan_unpoison_memory_region(stood, static_cast<std::size_t>(top - stood));
#endif
  const auto address = reinterpret_cast<std::uintptr_t>(entry);
#if defined(__x86_64__)
  // Six registers, the return address, and the return address of the caller, which does not exist.
  auto* frame = reinterpret_cast<std::uintptr_t*>(top) - 8;
  for (int i = 0; i < 8; ++i) frame[i] = 0;
  frame[6] = address;
  stack_pointer_ = frame;
#elif defined(__aarch64__)
  auto* frame = reinterpret_cast<std::uintptr_t*>(top) - 20;
  for (int i = 0; i < 20; ++i) frame[i] = 0;
  frame[11] = address;  // x30
  stack_pointer_ = frame;
#else
  static_cast<void>(address);
  getcontext(&context_);
  context_.uc_stack.ss_sp = bottom;
  context_.uc_stack.ss_size = static_cast<std::size_t>(top - bottom);
  context_.uc_link = nullptr;
  makecontext(&context_, entry, 0);
#endif
}

void Fiber::switch_to(Fiber& other) {
#ifdef EMULATION_THREAD_SANITIZER
  if (mapping_ == nullptr) thread_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(other.thread_, __tsan_switch_to_fiber_no_sync);
#endif
#if defined(__x86_64__) || defined(__aarch64__)
  turnbench_switch_stacks(&stack_pointer_, other.stack_pointer_);
#else
  swapcontext(&context_, &other.context_);
#endif
}

#ifdef EMULATION_ADDRESS_SANITIZER
// Reporting every switch to the sanitizer takes longer than the switch; instead, all stacks are one
// stack for the sanitizer.
void Fiber::enter(Fiber& first) {
  const void* bottom = nullptr;
  std::size_t size = 0;
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, reserved_stacks(), kMany * stack_stride());
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
  switch_to(first);
  __sanitizer_start_switch_fiber(nullptr, bottom, size);
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
}
#else
void Fiber::enter(Fiber& first) {
  switch_to(first);
}
#endif

}  // namespace emulation
