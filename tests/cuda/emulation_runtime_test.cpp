// The emulated runtime: memory, streams, events and the limits of launches.

#include <array>
#include <cstring>
#include <set>
#include <vector>

#include "inference/cuda/event.h"
#include "tests/cuda/emulated.h"

namespace turnbench::cuda {
namespace {

__global__ void fill(int* out, int value) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

cudaError_t launched(dim3 grid, dim3 block, std::size_t shared, int* out) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  const cudaError_t error = cudaLaunchKernelEx(&config, fill, out, 1);
  EXPECT_EQ(cudaGetLastError(), error);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  cudaDeviceSynchronize();
  return error;
}

TEST(EmulatedRuntime, EnforcesTheCardsLaunchLimits) {
  PinnedVector<int> out(4096);
  EXPECT_EQ(launched(4, 1024, 48 << 10, out.data()), cudaSuccess);
  EXPECT_EQ(launched(1, 1025, 0, out.data()), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launched(1, dim3(32, 33), 0, out.data()), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launched(1, dim3(1, 1, 65), 0, out.data()), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launched(0, 32, 0, out.data()), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launched(1, 0, 0, out.data()), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launched(dim3(1, 65536), 1, 0, out.data()), cudaErrorInvalidConfiguration);
  const auto allow = [](int bytes) {
    return cudaFuncSetAttribute(fill, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  };
  EXPECT_EQ(launched(1, 32, (48 << 10) + 1, out.data()), cudaErrorInvalidValue);
  EXPECT_EQ(allow((227 << 10) + 1), cudaErrorInvalidValue);
  EXPECT_EQ(allow(227 << 10), cudaSuccess);
  EXPECT_EQ(launched(1, 32, 227 << 10, out.data()), cudaSuccess);
  EXPECT_EQ(launched(1, 32, (227 << 10) + 1, out.data()), cudaErrorInvalidValue);
}

TEST(EmulatedRuntime, MemoryStartsAsNaNAndIsCounted) {
  std::size_t free = 0, total = 0, left = 0;
  cudaMemGetInfo(&free, &total);
  int* data = nullptr;
  ASSERT_EQ(cudaMalloc(&data, 400), cudaSuccess);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 256, 0u);
  std::array<int, 100> found = {};
  EXPECT_EQ(cudaMemcpy(found.data(), data, 400, cudaMemcpyDeviceToHost), cudaSuccess);
  for (const int x : found) EXPECT_EQ(x, -1);
  cudaMemGetInfo(&left, &total);
  EXPECT_EQ(left, free - 400);
  EXPECT_EQ(cudaFreeHost(data), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(data + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&data, total + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(data, nullptr);
}

TEST(EmulatedRuntime, StreamsRunAtSynchronisation) {
  Context context(0);
  PinnedVector<int> device(64, -1), pinned(64);
  context.launch(fill, 2, 32, 0, device.data(), 5);
  EXPECT_EQ(device[63], -1);
  EXPECT_EQ(cudaStreamQuery(context.stream()), cudaErrorNotReady);
  context.synchronize();
  EXPECT_EQ(device[63], 5);
  EXPECT_EQ(cudaStreamQuery(context.stream()), cudaSuccess);

  // Host memory is read when the copy runs, pinned or not.
  std::vector<int> pageable(32, 1);
  for (int i = 0; i < 32; ++i) pinned[i] = 1;
  context.copy(device.data(), pageable.data(), 32 * sizeof(int));
  context.copy(device.data() + 32, pinned.data(), 32 * sizeof(int));
  pageable[0] = pinned[0] = 2;
  context.synchronize();
  EXPECT_EQ(device[0], 2);
  EXPECT_EQ(device[32], 2);
}

/// The values that a stream reads of another stream's write, over many orders of the two; `between`
/// is called with both streams after the write was submitted and before the read.
template <typename Between>
std::set<int> values_read(const Between& between) {
  std::set<int> out;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    emulation::set_order(emulation::Order::kShuffled, seed);
    PinnedVector<int> written(32);
    int read = 0;
    Context writer(0), reader(0);
    writer.launch(fill, 1, 32, 0, written.data(), 1);
    between(writer.stream(), reader.stream());
    emulation::enqueue(reader.stream(), [&] { read = written[0]; });
    reader.synchronize();
    out.insert(read);
  }
  emulation::set_order(emulation::Order::kForward);
  return out;
}

TEST(EmulatedRuntime, StreamsWithoutAnOrderOvertakeEachOther) {
  EXPECT_EQ(values_read([](cudaStream_t, cudaStream_t) {}), (std::set{0, 1}));
  EXPECT_EQ(values_read([](cudaStream_t writer, cudaStream_t reader) {
              Event event;
              event.record(writer);
              event.block(reader);
              event.record(reader);  // the reader still waits for the earlier point
            }),
            std::set{1});
}

TEST(EmulatedRuntime, EventsOrderStreams) {
  Context first(0), second(0);
  PinnedVector<int> out(32);
  cudaEvent_t done = nullptr, end = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&done, cudaEventDisableTiming), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&end), cudaSuccess);
  first.launch(fill, 1, 32, 0, out.data(), 1);
  ASSERT_EQ(cudaEventRecord(done, first.stream()), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second.stream(), done), cudaSuccess);
  second.launch(fill, 1, 32, 0, out.data(), 2);
  first.launch(fill, 1, 32, 0, out.data(), 3);
  ASSERT_EQ(cudaEventRecord(end, first.stream()), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(done), cudaErrorNotReady);
  second.synchronize();
  EXPECT_EQ(out[0], 2);
  EXPECT_EQ(cudaEventQuery(done), cudaSuccess);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, done, end), cudaErrorNotReady);
  EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(out[0], 3);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, done, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  cudaEventDestroy(done);
  cudaEventDestroy(end);
}

TEST(EmulatedRuntime, RejectsCopiesOutsideOfAnAllocation) {
  std::byte* device = nullptr;
  std::array<std::byte, 64> host = {};
  ASSERT_EQ(cudaMalloc(&device, 64), cudaSuccess);
  const auto copy = [](void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    return cudaMemcpy(to, from, bytes, kind);
  };
  EXPECT_EQ(copy(device, host.data(), 64, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(copy(device + 1, host.data(), 64, cudaMemcpyDefault), cudaErrorInvalidValue);
  EXPECT_EQ(copy(host.data(), device, 64, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(copy(host.data(), device + 60, 5, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(host.data(), 0, 64), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(device + 32, 7, 32), cudaSuccess);
  // Two rows of 4 bytes, 48 apart there and 8 apart here.
  EXPECT_EQ(cudaMemcpy2DAsync(host.data(), 8, device, 48, 4, 2, cudaMemcpyDeviceToHost),
            cudaSuccess);
  cudaDeviceSynchronize();
  EXPECT_EQ(host[0], std::byte{0});
  EXPECT_EQ(host[8], std::byte{7});
  EXPECT_EQ(host[12], std::byte{0});
  EXPECT_EQ(cudaMemcpy2DAsync(host.data(), 8, device, 61, 4, 2, cudaMemcpyDeviceToHost),
            cudaErrorInvalidValue);
  cudaFree(device);
}

}  // namespace
}  // namespace turnbench::cuda
