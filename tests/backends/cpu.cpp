#include "tests/backends/backend.h"

namespace turnbench::test {

std::unique_ptr<Backend> make_backend(int threads) {
  return make_cpu_backend(threads);
}

std::vector<std::unique_ptr<Backend>> make_backends(int count, int threads) {
  std::vector<std::unique_ptr<Backend>> out;
  for (int i = 0; i < count; ++i) out.push_back(make_backend(threads));
  return out;
}

bool is_emulated() {
  return false;
}

}  // namespace turnbench::test
