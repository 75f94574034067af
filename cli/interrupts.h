#pragma once

namespace turnbench {

/// Handles SIGINT, SIGTERM and SIGHUP during its lifetime.  (SIGHUP only if it is not ignored, as
/// it is under nohup.)  After the first signal, `any` returns true, so that a run stops after the
/// units in flight, and a message is printed on stderr.  A second signal ends the program.  At most
/// one object may exist at a time.
class Interrupts {
 public:
  /// message: one line without a line end; the pointer must stay valid (a string literal).
  explicit Interrupts(const char* message = "stopping when what is in flight is stored");
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool any() const { return signal() != 0; }  ///< true if a signal was received
  int signal() const;                         ///< the first signal; 0 if none was received

 private:
  bool handles_hangup_ = false;
};

}  // namespace turnbench
