// Faults of the emulated GPU and their handling by the backend.

#include <array>

#include "inference/cuda/cuda_backend.h"
#include "inference/cuda/device_memory.h"
#include "tests/cuda/emulated.h"

namespace turnbench::cuda {
namespace {

__global__ void fill_one(int* out) {
  *out = 1;
}

struct Argument {
  std::int64_t count;
  int* data;
};
__global__ void fill_of(Argument argument) {
  for (std::int64_t i = 0; i < argument.count; ++i) argument.data[i] = 1;
}

class Faults : public testing::Test {
 protected:
  ~Faults() override {
    emulation::fail_allocation(0);
    emulation::fail_launch(0);
    emulation::restore_devices();
  }
  /// The kind of the error that `call` throws; empty if it throws none.
  template <typename Call>
  static std::optional<ErrorKind> kind_of(const Call& call) {
    try {
      call();
      return std::nullopt;
    } catch (const Error& error) {
      return error.kind();
    }
  }
};

TEST_F(Faults, AllocationsFailWhenAsked) {
  const auto memory = std::make_shared<DeviceMemory>(std::make_shared<Context>(0));
  emulation::fail_allocation(1);
  EXPECT_EQ(kind_of([&] { Buffer(1000, memory); }), ErrorKind::kMemory);
  emulation::fail_allocation(0);
  EXPECT_EQ(kind_of([&] { Buffer(1000, memory); }), std::nullopt);
}

TEST_F(Faults, AnIllegalAddressLosesTheDevice) {
  PinnedVector<int> out(2);
  std::byte* before = nullptr;
  ASSERT_EQ(cudaMalloc(&before, 16), cudaSuccess);
  {
    auto context = std::make_shared<Context>(0);
    auto memory = std::make_shared<DeviceMemory>(context);
    Buffer buffer(100, memory);
    emulation::fail_launch(2);
    for (int i = 0; i < 3; ++i) context->launch(fill_one, 1, 1, 0, out.data() + i % 2);
    EXPECT_EQ(kind_of([&] { context->synchronize(); }), ErrorKind::kDevice);
    EXPECT_EQ(out[0], 1);
    EXPECT_EQ(out[1], 0);
    // Each later call fails in the same way, and no destructor throws.
    EXPECT_EQ(kind_of([&] { context->synchronize(); }), ErrorKind::kDevice);
    EXPECT_EQ(kind_of([&] { context->launch(fill_one, 1, 1, 0, out.data()); }), ErrorKind::kDevice);
    EXPECT_EQ(kind_of([&] { Buffer(std::size_t{5} << 20, memory); }), ErrorKind::kDevice);
    EXPECT_EQ(kind_of([&] { Context(0); }), ErrorKind::kDevice);
    EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaFree(before), cudaErrorIllegalAddress);
  }
  // Another device still works.
  cudaSetDevice(1);
  EXPECT_EQ(kind_of([&] { Context(1).synchronize(); }), std::nullopt);
  cudaSetDevice(0);
  emulation::restore_devices();
  EXPECT_EQ(kind_of([&] { Context(0).synchronize(); }), std::nullopt);
}

// On a GPU whose driver maps host memory, such a kernel works, slowly and without any order.
TEST_F(Faults, KernelsDoNotAccessPageableMemory) {
  std::vector<int> pageable(32);
  for (int i = 0; i < 2; ++i) {
    Context context(0);
    testing::internal::CaptureStderr();
    if (i == 0) {
      context.launch(fill_one, 1, 1, 0, pageable.data());
    } else {
      context.launch(fill_of, 1, 1, 0, Argument{32, pageable.data()});
    }
    EXPECT_EQ(kind_of([&] { context.synchronize(); }), ErrorKind::kDevice);
    EXPECT_NE(testing::internal::GetCapturedStderr().find("pageable host memory"),
              std::string::npos);
    EXPECT_EQ(pageable, std::vector<int>(32));
    emulation::restore_devices();
  }
  PinnedVector<int> pinned(32);
  Context context(0);
  context.launch(fill_of, 1, 1, 0, Argument{32, pinned.data()});
  context.synchronize();
  EXPECT_EQ(pinned[31], 1);
}

TEST_F(Faults, BackendsFailAfterLosingTheirDevice) {
  auto backend = make_backend(0, 1);
  Buffer buffer(1000, backend->memory());
  emulation::fail_launch(1);
  const std::vector<float> ones(8, 1);
  float* x = buffer.as<float>();
  backend->memory()->copy_floats(ones.data(), x, ones.size());
  backend->add(x, x + 8, 8);
  EXPECT_EQ(kind_of([&] { backend->memory()->synchronize(); }), ErrorKind::kDevice);
}

}  // namespace
}  // namespace turnbench::cuda
