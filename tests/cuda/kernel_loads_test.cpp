#include "inference/cuda/kernel_loads.h"

#include <gtest/gtest.h>

#include "inference/cuda/elementwise.h"
#include "tests/cuda/device_array.h"

namespace turnbench {
namespace {

using cuda::SlowNotice;

/// The output of action() on stderr.
template <typename Action>
std::string printed_by(const Action& action) {
  testing::internal::CaptureStderr();
  action();
  return testing::internal::GetCapturedStderr();
}

TEST(SlowNotice, IsPrintedOnceItsDelayHasPassed) {
  EXPECT_EQ(printed_by([] { const SlowNotice notice("slow", std::chrono::hours(1)); }), "");
  EXPECT_EQ(printed_by([] { const SlowNotice notice("slow", std::chrono::seconds(0)); }), "slow\n");
  EXPECT_EQ(printed_by([] {
              const SlowNotice notice("slow", std::chrono::milliseconds(1));
              std::this_thread::sleep_for(std::chrono::milliseconds(20));
            }),
            "slow\n");
}

TEST(KernelLoads, OnlyTheFirstLaunchOfAKernelIsWatched) {
  cuda::Context context(0);
  test::DeviceArray<float> x({1, 2}), y({3, 4});
  const auto add = [&] { cuda::add(context, x.data(), y.data(), 2); };
  context.kernel_loads().set_delay(std::chrono::seconds(0));
  EXPECT_EQ(printed_by(add), "compiling kernels for this GPU ...\n");
  EXPECT_EQ(printed_by(add), "");
  EXPECT_EQ(x.values(), (std::vector<float>{7, 10}));
}

}  // namespace
}  // namespace turnbench
