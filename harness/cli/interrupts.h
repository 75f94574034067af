#pragma once

namespace turnbench {

/// While it lives, the first SIGINT or SIGTERM asks what runs to stop after what is in flight, and
/// a second one ends the program.  One at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool any() const;
};

}  // namespace turnbench
