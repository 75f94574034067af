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
std::atomic<bool> is_idle = false;
static_assert(std::atomic<int>::is_always_lock_free);
static_assert(std::atomic<bool>::is_always_lock_free);
static_assert(std::atomic<const char*>::is_always_lock_free);

void write_all(const char* text) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text, std::strlen(text));
}

bool asks_for_another_run(int signal) {
  return signal == SIGTERM || signal == SIGUSR1;
}

extern "C" void on_interrupt(int signal) {
  int none = 0;
  if (!first_signal.compare_exchange_strong(none, signal)) {
    // Schedulers signal all processes of a job, and their scripts forward the signal as SIGUSR1.
    if (signal == SIGUSR1) return;
    std::_Exit(128 + signal);
  }
  if (is_idle) std::_Exit(asks_for_another_run(signal) ? kRunAgain : 128 + signal);
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
  is_idle = false;
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  std::signal(SIGUSR1, on_interrupt);
  if (handles_hangup_) std::signal(SIGHUP, on_interrupt);
}

Interrupts::~Interrupts() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGUSR1, SIG_DFL);
  if (handles_hangup_) std::signal(SIGHUP, SIG_DFL);
}

void Interrupts::set_idle(bool idle) {
  is_idle = idle;
}

int Interrupts::signal() const {
  return first_signal;
}

void Interrupts::stop(const std::string& message) const {
  if (asks_for_another_run(first_signal)) throw Stopped(message);
  throw Error(ErrorKind::kRuntime, message);
}

}  // namespace turnbench
