#include "cli/interrupts.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace turnbench {
namespace {

// A signal handler can access its state only through globals.
std::atomic<int> first_signal = 0;
std::atomic<const char*> said = nullptr;
static_assert(std::atomic<int>::is_always_lock_free);
static_assert(std::atomic<const char*>::is_always_lock_free);

void write_all(const char* text) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text, std::strlen(text));
}

extern "C" void on_interrupt(int signal) {
  int none = 0;
  if (!first_signal.compare_exchange_strong(none, signal)) std::_Exit(128 + signal);
  const int error = errno;  // of the interrupted call
  // On a terminal, the line may contain progress.
  write_all(isatty(STDERR_FILENO) != 0 ? "\nturnbench: " : "turnbench: ");
  write_all(said);
  write_all("; again to stop at once\n");
  errno = error;
}

/// Whether the process was started with the signal ignored.
bool is_ignored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

Interrupts::Interrupts(const char* message) : handles_hangup_(!is_ignored(SIGHUP)) {
  first_signal = 0;
  said = message;
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  if (handles_hangup_) std::signal(SIGHUP, on_interrupt);
}

Interrupts::~Interrupts() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  if (handles_hangup_) std::signal(SIGHUP, SIG_DFL);
}

int Interrupts::signal() const {
  return first_signal;
}

}  // namespace turnbench
