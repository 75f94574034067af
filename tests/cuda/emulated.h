#pragma once

#include <gtest/gtest.h>

#include "inference/cuda/context.h"
#include "inference/cuda/device.h"
#include "tests/cuda/orders.h"
#include "tests/cuda/pinned.h"

namespace turnbench::cuda {

using test::kOrders;
using test::PinnedVector;

/// Tests of kernels in the orders of the emulation.
class Emulated : public testing::Test {
 protected:
  Emulated() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  ~Emulated() override { emulation::set_order(emulation::Order::kForward); }

  /// Runs a kernel to its end.
  template <typename... Parameters, typename... Args>
  static void run(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared,
                  Args... args) {
    Context context(0);
    context.launch(kernel, grid, block, shared, args...);
    context.synchronize();
  }

  /// check() in every order.
  template <typename Check>
  static void in_every_order(const Check& check) {
    test::in_every_order(check);
  }
};

}  // namespace turnbench::cuda
