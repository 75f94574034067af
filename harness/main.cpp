#include "harness/cli.h"

int main(int argc, char** argv) {
  return turnbench::run_cli(argc, argv);
}
