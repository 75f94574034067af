#pragma once

#include <csignal>

namespace turnbench::test {

/// The AMX instructions that the kernels use, by their definition in Intel's manual (Intel 64 and
/// IA-32 Architectures Software Developer's Manual, volume 2), on processors without AMX: while it
/// exists, a handler of SIGILL executes them.
class EmulatedAmx {
 public:
  EmulatedAmx();
  ~EmulatedAmx();
  EmulatedAmx(const EmulatedAmx&) = delete;
  EmulatedAmx& operator=(const EmulatedAmx&) = delete;

 private:
  struct sigaction before_;
};

/// Products of two tiles since the start of the process.
long emulated_tile_products();

}  // namespace turnbench::test
