#include <malloc.h>

#include <csignal>

#include "cli/cli.h"

int main(int argc, char** argv) {
  // Buffers of a mebibyte and more go back to the system when they are freed.  Otherwise glibc
  // raises this limit with each, and a long sweep ends up with a heap full of holes.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  // A file that would grow beyond the limit of its size (ulimit -f) is an error of the write.
  std::signal(SIGXFSZ, SIG_IGN);
  return turnbench::run_cli(argc, argv);
}
