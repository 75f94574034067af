#include "harness/cli/interrupts.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>

namespace turnbench {
namespace {

// A signal's handler can be told of its object in no other way.
std::atomic<int> interrupts = 0;
static_assert(std::atomic<int>::is_always_lock_free);

constexpr std::string_view kStopping =
    "\nturnbench: stopping when what is in flight is stored; again to stop at once\n";

extern "C" void on_interrupt(int signal) {
  if (++interrupts > 1) std::_Exit(128 + signal);
  const int error = errno;  // of what was interrupted
  // The line break is for a terminal, where progress stands in the line.
  const std::string_view text = kStopping.substr(isatty(STDERR_FILENO) != 0 ? 0 : 1);
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
  errno = error;
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
