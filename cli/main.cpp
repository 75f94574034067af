#include <malloc.h>

#include <csignal>

#include "cli/cli.h"

int main(int argc, char** argv) {
  // Buffers of a mebibyte and more are returned to the system when they are freed.  By default,
  // glibc raises this limit with each such buffer, which fragments the heap in a long sweep.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  // Smaller buffers stay in the process.  With a fixed limit for large ones, glibc returns all but
  // 128 KiB of the end of the heap with each `free`, and every pass asks for it again: a tenth of
  // the processor time of a sweep.
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  // Makes exceeding the file size limit (ulimit -f) an error of the write.
  std::signal(SIGXFSZ, SIG_IGN);
  return turnbench::run_cli(argc, argv);
}
