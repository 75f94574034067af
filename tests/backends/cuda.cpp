#include "inference/cuda/cuda_backend.h"
#include "tests/backends/backend.h"

namespace turnbench::test {

std::unique_ptr<Backend> make_backend(int threads) {
  return cuda::make_backend(0, threads);
}

bool is_emulated() {
#ifdef TURNBENCH_EMULATED
  return true;
#else
  return false;
#endif
}

}  // namespace turnbench::test
