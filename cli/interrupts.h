#pragma once

#include <string>

#include "common/error.h"

namespace turnbench {

/// The exit code of a program that SIGTERM or SIGUSR1 stopped with work left (EX_TEMPFAIL).
constexpr int kRunAgain = 75;

/// Such a stop.
class Stopped : public Error {
 public:
  explicit Stopped(const std::string& message) : Error(ErrorKind::kRuntime, message) {}
};

/// Handles SIGINT, SIGTERM, SIGHUP and SIGUSR1 during its lifetime.  (SIGHUP only if it is not
/// ignored, as it is under nohup.)  After the first signal, `any` returns true, so that a run stops
/// its units, and a message is printed on stderr.  A second signal ends the program, unless it is
/// SIGUSR1, which is ignored then.  At most one object may exist at a time.
class Interrupts {
 public:
  /// message: one line without a line end; the pointer must stay valid (a string literal).
  explicit Interrupts(const char* message = "stopping when what is in flight is stored");
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// While nothing is in flight, the first signal ends the program, with kRunAgain for SIGTERM and
  /// SIGUSR1.
  void set_idle(bool idle);

  bool any() const { return signal() != 0; }  ///< true if a signal was received
  int signal() const;                         ///< the first signal; 0 if none was received
  /// Ends a program that the first signal stopped with work left.
  /// @throws Stopped after SIGTERM and SIGUSR1, else Error (runtime).
  [[noreturn]] void stop(const std::string& message) const;

 private:
  bool handles_hangup_ = false;
};

}  // namespace turnbench
