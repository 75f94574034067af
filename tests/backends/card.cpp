// The main function of test programs that need a GPU.

#include <gtest/gtest.h>

#include <cstdio>
#include <exception>

#include "inference/cuda/cublas_lt.h"
#include "inference/cuda/cuda_backend.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();  // shows that the program starts
  try {
    turnbench::cuda::load_cublas_lt();  // fails if the library is missing or incomplete
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  if (turnbench::cuda::device_count() == 0) {
    std::printf("skipped: no GPU: %s\n", turnbench::cuda::no_device_reason().c_str());
    return 77;  // reported as skipped by ctest
  }
  return RUN_ALL_TESTS();
}
