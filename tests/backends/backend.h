#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "inference/backend/backend.h"

namespace turnbench::test {

/// The backend under test.  Each test program links its own definition.
std::unique_ptr<Backend> make_backend(int threads);
/// Several backends, each on its own device if there are enough devices.
std::vector<std::unique_ptr<Backend>> make_backends(int count, int threads);

/// The rows of a matrix in a backend's memory.
inline std::vector<std::vector<float>> rows_on_host(Backend& backend,
                                                    MatrixView<const float> matrix) {
  std::vector<std::vector<float>> out;
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    std::vector<float>& row = out.emplace_back(static_cast<std::size_t>(matrix.columns));
    backend.memory()->copy_floats(matrix.row(r), row.data(), row.size());
  }
  return out;
}

/// True if the kernels are emulated.  Emulation is slow, so suites then run fewer cases.
bool is_emulated();

}  // namespace turnbench::test

/// For tests that require equal bits regardless of the other rows in the pass.
#define SKIP_UNLESS_ROWS_ARE_INDEPENDENT()                       \
  if (!turnbench::test::make_backend(1)->rows_are_independent()) \
  GTEST_SKIP() << "a row's bits may depend on its company on this backend"
