#include <gtest/gtest.h>

#include "inference/cuda/cuda_backend.h"
#include "tests/cuda/orders.h"
#include "tests/inference/selection.h"

namespace turnbench {
namespace {

TEST(CudaSelection, DoesNotDependOnThreadOrder) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const std::vector<float> out = test::in_every_order([&] {
      const auto backend = cuda::make_backend(0, 1);
      return test::outputs_of_selection(*backend, dtype, 9, 36, 70);
    });
    EXPECT_FALSE(out.empty());
  }
}

}  // namespace
}  // namespace turnbench
