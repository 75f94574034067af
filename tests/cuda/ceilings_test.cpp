#include "inference/cuda/ceilings.h"

#include <gtest/gtest.h>

#include <cmath>

namespace turnbench::cuda {
namespace {

TEST(CudaCeilings, ReadBytes) {
  Context context(0);
  for (std::size_t bytes : {std::size_t{1} << 20, (std::size_t{1} << 20) + 16}) {
    const double rate = measure_read_bytes(context, bytes);
    EXPECT_GT(rate, 0);
    EXPECT_TRUE(std::isfinite(rate));
  }
}

}  // namespace
}  // namespace turnbench::cuda
