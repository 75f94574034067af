#pragma once

#include <memory>
#include <vector>

#include "inference/backend.h"

namespace turnbench::test {

/// The backend that this test program is about; each program brings its own.
std::unique_ptr<Backend> make_backend(int threads);
/// Several, each on a device of its own as far as there are so many.
std::vector<std::unique_ptr<Backend>> make_backends(int count, int threads);

/// Whether its kernels are emulated, which takes so long that suites do less of the same.
bool is_emulated();

}  // namespace turnbench::test

/// For tests of equal bits, whatever rows are computed together.
#define SKIP_UNLESS_ROWS_ARE_INDEPENDENT()                       \
  if (!turnbench::test::make_backend(1)->rows_are_independent()) \
  GTEST_SKIP() << "a row's bits may depend on its company on this backend"
