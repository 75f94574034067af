// The counters of the emulated runtime and the time that results from them.

#include "tests/cuda/emulation/counters.h"

#include <vector>

#include "tests/cuda/emulated.h"

namespace turnbench::cuda {
namespace {

__global__ void set_to(int* out, int value) {
  out[threadIdx.x] = value;
}

class EmulatedCounters : public Emulated {
 protected:
  EmulatedCounters() { check(cudaMalloc(&data_, kBytes), "allocating"); }
  ~EmulatedCounters() override { cudaFree(data_); }

  /// The counts of `calls`.
  template <typename Calls>
  emulation::Counters counted(const Calls& calls) {
    const emulation::Counters before = emulation::counters();
    calls();
    return emulation::counters() - before;
  }
  void launch() { context_.launch(set_to, 1, 32, 0, data_, 1); }
  cudaStream_t stream() const { return context_.stream(); }

  static constexpr std::size_t kBytes = 4000;
  Context context_{0};
  int* data_ = nullptr;
};

TEST_F(EmulatedCounters, CountLaunchesAndThoseOfGraphs) {
  const emulation::Counters direct = counted([&] {
    launch();
    launch();
    EXPECT_THROW(context_.launch(set_to, 1, 2000, 0, data_, 1), Error) << "not accepted";
  });
  EXPECT_EQ(direct.launches, 2u);
  EXPECT_DOUBLE_EQ(direct.seconds(), 2 * 2.5e-6);

  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  const emulation::Counters captured = counted([&] {
    check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), "capturing");
    launch();
    check(cudaMemsetAsync(data_, 0, kBytes, stream()), "clearing");
    launch();
    check(cudaStreamEndCapture(stream(), &graph), "capturing");
    check(cudaGraphInstantiate(&exec, graph, 0), "instantiating");
  });
  EXPECT_EQ(captured.launches + captured.fills + captured.graph_launches, 0u) << "nothing has run";
  const emulation::Counters repeated = counted([&] {
    check(cudaGraphLaunch(exec, stream()), "launching");
    check(cudaGraphLaunch(exec, stream()), "launching");
  });
  EXPECT_EQ(repeated.launches, 0u);
  EXPECT_EQ(repeated.graph_launches, 2u);
  EXPECT_EQ(repeated.graph_nodes, 6u);
  EXPECT_DOUBLE_EQ(repeated.seconds(), 2 * 2.5e-6 + 6 * 1.2e-6);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}

TEST_F(EmulatedCounters, CountCopiesByDirectionAndMemory) {
  std::vector<std::byte> pageable(kBytes);
  PinnedVector<int> pinned(kBytes / sizeof(int));
  const auto copy = [&](void* to, const void* from) {
    check(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDefault, stream()), "copying");
  };
  const emulation::Counters got = counted([&] {
    copy(data_, pageable.data());
    for (int i = 0; i < 2; ++i) copy(data_, pinned.data());
    for (int i = 0; i < 3; ++i) copy(pageable.data(), data_);
    for (int i = 0; i < 4; ++i) copy(pinned.data(), data_);
    for (int i = 0; i < 5; ++i) copy(data_, data_);
    check(cudaMemsetAsync(data_, 0, kBytes, stream()), "clearing");
  });
  const auto expect = [](const emulation::CopyCounter& counter, std::size_t count) {
    EXPECT_EQ(counter.count, count);
    EXPECT_EQ(counter.bytes, count * kBytes);
  };
  expect(got.up_pageable, 1);
  expect(got.up_pinned, 2);
  expect(got.down_pageable, 3);
  expect(got.down_pinned, 4);
  expect(got.within, 5);
  EXPECT_EQ(got.copies(), 15u);
  EXPECT_EQ(got.fills, 1u);
  EXPECT_EQ(got.waits, 3u) << "for what pageable memory gets";
  EXPECT_DOUBLE_EQ(got.seconds(), 16 * 2e-6 + 4 * (kBytes / 4e9) + 6 * (kBytes / 25e9) + 3 * 10e-6);
}

TEST_F(EmulatedCounters, CountWaitsAndAllocations) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "making an event");
  std::vector<std::byte> host(kBytes);
  void *device = nullptr, *pinned = nullptr;
  const emulation::Counters got = counted([&] {
    check(cudaStreamSynchronize(stream()), "waiting");
    check(cudaDeviceSynchronize(), "waiting");
    check(cudaEventRecord(event, stream()), "recording");
    check(cudaEventSynchronize(event), "waiting");
    check(cudaMemcpy(data_, host.data(), kBytes, cudaMemcpyDefault), "copying");
    check(cudaMemset(data_, 0, kBytes), "clearing");
    check(cudaMalloc(&device, kBytes), "allocating");
    check(cudaMallocHost(&pinned, kBytes), "allocating");
    check(cudaFree(device), "freeing");
    check(cudaFreeHost(pinned), "freeing");
  });
  EXPECT_EQ(got.waits, 6u);
  EXPECT_EQ(got.up_pageable.count, 1u);
  EXPECT_EQ(got.fills, 1u);
  EXPECT_EQ(got.allocations, 2u);
  cudaEventDestroy(event);
}

TEST_F(EmulatedCounters, BelongToDevicesAndCanBeReset) {
  const emulation::Counters before = emulation::counters(1);
  launch();
  EXPECT_EQ((emulation::counters(1) - before).launches, 0u) << "of the other device";
  EXPECT_GT(emulation::counters(0).launches, 0u);
  emulation::reset_counters();
  EXPECT_EQ(emulation::counters(0).launches, 0u);
  EXPECT_EQ(emulation::counters(0).allocations, 0u);
}

}  // namespace
}  // namespace turnbench::cuda
