#pragma once

namespace turnbench {

/// Handles SIGINT, SIGTERM and SIGHUP during its lifetime.  (SIGHUP only where it is not ignored,
/// as by nohup.)  The first signal makes `any` return true, so that a run stops after the units in
/// flight, and prints a message on stderr.  A second signal ends the program.  There must be at
/// most one object at a time.
class Interrupts {
 public:
  /// message: one line without its end, a string that stays.
  explicit Interrupts(const char* message = "stopping when what is in flight is stored");
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool any() const { return signal() != 0; }  ///< true if a signal has come
  int signal() const;                         ///< the first one; 0 if none has come

 private:
  bool handles_hangup_ = false;
};

}  // namespace turnbench
