#pragma once

namespace turnbench {

/// Handles SIGINT and SIGTERM during its lifetime.  The first signal makes `any` return true, so
/// that a run stops after the units in flight, and says so on stderr.  A second signal ends the
/// program.  There must be at most one object at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool any() const;  ///< true if a signal has come
};

}  // namespace turnbench
