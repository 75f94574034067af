#include "tests/backends/backend.h"

namespace turnbench::test {

std::unique_ptr<Backend> make_backend(int threads) {
  return make_cpu_backend(threads);
}

bool is_emulated() {
  return false;
}

}  // namespace turnbench::test
