#include "harness/cli/interrupts.h"

#include <atomic>
#include <csignal>
#include <cstdlib>

namespace turnbench {
namespace {

// A signal's handler can be told of its object in no other way.
std::atomic<int> interrupts = 0;
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void on_interrupt(int signal) {
  if (++interrupts > 1) std::_Exit(128 + signal);
}

}  // namespace

Interrupts::Interrupts() {
  interrupts = 0;
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
}

Interrupts::~Interrupts() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

bool Interrupts::any() const {
  return interrupts > 0;
}

}  // namespace turnbench
