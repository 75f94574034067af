// Several devices in one machine: the owners of memory and streams, and the selection of devices on
// the command line.

#include <array>
#include <thread>

#include "inference/cuda/device_memory.h"
#include "inference/devices/devices.h"
#include "tests/cuda/bytes.h"
#include "tests/cuda/emulated.h"
#include "tests/message_of.h"

namespace turnbench::cuda {
namespace {

__global__ void fill_on_device(int* out, int value) {
  *out = value;
}

class EmulatedDevices : public testing::Test {
 protected:
  ~EmulatedDevices() override { cudaSetDevice(0); }

  static std::size_t free_bytes(int device) {
    std::size_t free = 0, total = 0;
    cudaSetDevice(device);
    cudaMemGetInfo(&free, &total);
    return free;
  }
};

TEST_F(EmulatedDevices, AreChosenByEachThread) {
  int count = 0, chosen = -1;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  ASSERT_EQ(count, 2);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaGetDevice(&chosen), cudaSuccess);
  EXPECT_EQ(chosen, 1);
  std::thread([&] { cudaGetDevice(&chosen); }).join();
  EXPECT_EQ(chosen, 0);
}

TEST_F(EmulatedDevices, CountTheirOwnMemory) {
  const std::size_t first = free_bytes(0), second = free_bytes(1);
  int* data = nullptr;
  ASSERT_EQ(cudaMalloc(&data, 400), cudaSuccess);
  EXPECT_EQ(free_bytes(0), first);
  EXPECT_EQ(free_bytes(1), second - 400);
  cudaSetDevice(0);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  EXPECT_EQ(free_bytes(1), second);
}

TEST_F(EmulatedDevices, RunTheWorkOfTheirStreams) {
  test::PinnedVector<int> out(1);
  Context second(1);
  cudaLaunchConfig_t config = {};
  config.gridDim = config.blockDim = 1;
  config.stream = second.stream();
  EXPECT_EQ(cudaLaunchKernelEx(&config, fill_on_device, out.data(), 1), cudaSuccess);
  cudaSetDevice(0);
  EXPECT_EQ(cudaLaunchKernelEx(&config, fill_on_device, out.data(), 2),
            cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  second.synchronize();
  EXPECT_EQ(out[0], 1);
  second.begin();
  second.launch(fill_on_device, 1, 1, 0, out.data(), 3);
  second.synchronize();
  EXPECT_EQ(out[0], 3);
}

TEST_F(EmulatedDevices, CopyFromCardToCard) {
  const auto one = std::make_shared<Context>(0), other = std::make_shared<Context>(1);
  const auto first = std::make_shared<DeviceMemory>(one);
  const auto second = std::make_shared<DeviceMemory>(other);
  for (std::size_t size : {std::size_t{100}, 2 * HostTransfers::kBufferBytes}) {
    const std::vector<std::byte> expected = test::bytes_of(size, 1);
    Buffer from(size, first), to(size, second);
    first->copy(std::array{Copy{from.data(), expected.data(), size}});
    first->synchronize();
    second->copy(std::array{Copy{to.data(), from.data(), size}});
    second->synchronize();
    EXPECT_EQ(other->transfers().bytes(), 0u) << "by way of the host";
    std::vector<std::byte> found(size);
    check(cudaMemcpy(found.data(), to.data(), size, cudaMemcpyDefault), "copying in a test");
    EXPECT_TRUE(found == expected) << size;
  }
  EXPECT_GT(one->transfers().bytes(), 0u);
}

std::string refusal(const std::string& text) {
  return test::message_of([&] { parse_devices(text, "--device"); });
}

TEST(Devices, AreNamed) {
  using Devices = std::vector<Device>;
  EXPECT_EQ(parse_devices("auto", ""), Devices{Device{}});
  EXPECT_EQ(parse_devices("cpu", ""), Devices{Device{}});
  EXPECT_EQ(parse_devices("cuda", ""), (Devices{{true, 0}}));
  EXPECT_EQ(parse_devices("cuda:1", ""), (Devices{{true, 1}}));
  EXPECT_EQ(parse_devices("cuda:1,0", ""), (Devices{{true, 1}, {true, 0}}));
  for (const char* text : {"", "gpu", "cuda:", "cuda:,", "cuda:0,", "cuda:x", "cuda:-1", "cuda0",
                           "cuda:0;1", "cuda:0, 1", "cuda:99999999999", "cpu,cuda:0"}) {
    EXPECT_EQ(refusal(text),
              fmt::format("--device: found \"{}\", expected auto, cpu or cuda[:N[,M...]]", text));
  }
  EXPECT_EQ(refusal("cuda:1,0,1"),
            "--device: found device 1 twice in cuda:1,0,1, expected each once");
  EXPECT_EQ(refusal("cuda:0,2"),
            "--device: found device 2, expected one from 0 to 1: this machine has 2");
}

TEST(Devices, AreMissingForAReason) {
  const auto refusal_with = [](cudaError_t error, int driver) {
    emulation::fail_device_count(error, driver);
    std::string said = refusal("cuda:0");
    EXPECT_EQ(device_count(), 0);
    EXPECT_EQ("--device: found cuda:0, expected auto or cpu: " + no_device_reason(), said);
    EXPECT_EQ(cuda_description(), "none: " + no_device_reason());
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    emulation::fail_device_count(cudaSuccess);
    return said.substr(said.find("cpu: ") + 5);
  };
  EXPECT_EQ(refusal_with(cudaErrorNoDevice, CUDART_VERSION), "this machine has no CUDA device");
  EXPECT_EQ(refusal_with(cudaErrorInsufficientDriver, 0),
            "this machine has no CUDA driver (libcuda.so.1)");
  EXPECT_EQ(refusal_with(cudaErrorInsufficientDriver, 12040),
            "the CUDA driver (12.4) is older than the runtime (13.0): CUDA driver version is "
            "insufficient for CUDA runtime version");
  EXPECT_EQ(refusal_with(cudaErrorInitializationError, 13010),
            "CUDA counts no devices: initialization error (driver 13.1, runtime 13.0)");
  EXPECT_EQ(device_count(), 2);
}

TEST(Devices, HaveBackendsInTheirOrder) {
  const auto backends = make_backends(parse_devices("cuda:1,0", ""), 1);
  EXPECT_EQ(description_of(backends), "cuda:1, emulated; cuda:0, emulated");
  EXPECT_EQ(pointers_to(backends), (std::vector{backends[0].get(), backends[1].get()}));
}

}  // namespace
}  // namespace turnbench::cuda
