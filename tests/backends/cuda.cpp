#include "inference/cuda/cuda_backend.h"
#include "tests/backends/backend.h"

namespace turnbench::test {

std::unique_ptr<Backend> make_backend(int threads) {
  return cuda::make_backend(0, threads);
}

std::vector<std::unique_ptr<Backend>> make_backends(int count, int threads) {
  std::vector<std::unique_ptr<Backend>> out;
  for (int i = 0; i < count; ++i)
    out.push_back(cuda::make_backend(i % cuda::device_count(), threads));
  return out;
}

bool is_emulated() {
#ifdef TURNBENCH_EMULATED
  return true;
#else
  return false;
#endif
}

}  // namespace turnbench::test
