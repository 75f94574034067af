#include "cli/exit_signals.h"

#include <csignal>
#include <cstdlib>

namespace turnbench {
namespace {

extern "C" void on_exit_signal(int) {
  std::_Exit(0);
}

}  // namespace

void exit_at_signals() {
  std::signal(SIGINT, on_exit_signal);
  std::signal(SIGTERM, on_exit_signal);
}

}  // namespace turnbench
