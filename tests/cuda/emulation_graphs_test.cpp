// The emulated runtime: captures of streams, and graphs.

#include <array>
#include <functional>
#include <string>
#include <thread>

#include "tests/cuda/emulated.h"
#include "tests/cuda/emulation/device.h"

namespace turnbench::cuda {
namespace {

__global__ void add_to(int* out, int value) {
  out[threadIdx.x] += value;
}

class EmulatedGraphs : public Emulated {
 protected:
  EmulatedGraphs() {
    check(cudaMalloc(&data_, kBytes), "allocating");
    check(cudaMemset(data_, 0, kBytes), "clearing");
  }
  ~EmulatedGraphs() override { cudaFree(data_); }

  cudaError_t begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    return cudaStreamBeginCapture(stream(), mode);
  }
  void add(int value) { context_.launch(add_to, 1, 32, 0, data_, value); }
  /// The graph of the captured operations, ready to be launched.
  cudaGraphExec_t end() {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    check(cudaStreamEndCapture(stream(), &graph), "ending a capture");
    check(cudaGraphInstantiate(&exec, graph), "making a graph");
    check(cudaGraphDestroy(graph), "destroying a graph");
    return exec;
  }
  cudaStreamCaptureStatus status() {
    cudaStreamCaptureStatus out = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(stream(), &out);
    return out;
  }
  cudaStream_t stream() { return context_.stream(); }
  /// The current value of an element of `data_`; reading it runs nothing.
  int value(int i) {
    const emulation::Opened memory;
    return data_[i];
  }

  /// A capture in which `call` is refused; its operations are discarded, and the stream still
  /// works.
  void expect_refused(cudaError_t error, const std::function<cudaError_t()>& call,
                      cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    ASSERT_EQ(begin(mode), cudaSuccess);
    add(100);
    EXPECT_EQ(status(), cudaStreamCaptureStatusActive);
    EXPECT_EQ(call(), error);
    EXPECT_EQ(status(), cudaStreamCaptureStatusInvalidated);
    EXPECT_EQ(cudaMemsetAsync(data_, 0, kBytes, stream()), cudaErrorStreamCaptureInvalidated);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream(), &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(status(), cudaStreamCaptureStatusNone);
    const int before = value(0);
    add(1);
    context_.synchronize();
    EXPECT_EQ(value(0), before + 1);
  }
  /// A capture in which `call` is allowed.
  void expect_allowed(const std::function<cudaError_t()>& call, cudaStreamCaptureMode mode) {
    ASSERT_EQ(begin(mode), cudaSuccess);
    EXPECT_EQ(call(), cudaSuccess);
    EXPECT_EQ(status(), cudaStreamCaptureStatusActive);
    cudaGraphExecDestroy(end());
  }

  static constexpr std::size_t kBytes = 32 * sizeof(int);
  Context context_{0};
  int* data_ = nullptr;
  PinnedVector<int> pinned_ = PinnedVector<int>(32);
};

cudaError_t allocate_and_free() {
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, 64);
  return error == cudaSuccess ? cudaFree(data) : error;
}

TEST_F(EmulatedGraphs, RunWhenLaunchedWithTheValuesOfTheirCapture) {
  int added = 3;
  add(1);
  ASSERT_EQ(begin(), cudaSuccess);
  add(added);
  context_.copy(data_ + 16, pinned_.data(), kBytes / 2);
  added = 50;
  add(added);
  check(cudaMemsetAsync(data_ + 31, 0, sizeof(int), stream()), "clearing");
  const cudaGraphExec_t exec = end();
  context_.synchronize();
  EXPECT_EQ(value(0), 1) << "what was asked for before the capture, and nothing of it";

  added = 1000;
  std::fill(pinned_.begin(), pinned_.end(), 7);
  EXPECT_EQ(cudaGraphLaunch(exec, stream()), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, stream()), cudaSuccess);
  EXPECT_EQ(value(0), 1);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);  // operations that were launched still run
  EXPECT_EQ(cudaGraphLaunch(exec, stream()), cudaErrorInvalidValue);
  context_.synchronize();
  EXPECT_EQ(value(0), 1 + 2 * 53);
  EXPECT_EQ(value(16), 7 + 50) << "pinned memory is read when the graph runs";
  EXPECT_EQ(value(31), 0);
}

TEST_F(EmulatedGraphs, AreCapturedInGraphsThemselves) {
  ASSERT_EQ(begin(), cudaSuccess);
  add(1);
  const cudaGraphExec_t inner = end();
  ASSERT_EQ(begin(), cudaSuccess);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(cudaGraphLaunch(inner, stream()), cudaSuccess);
  const cudaGraphExec_t outer = end();
  cudaGraphExecDestroy(inner);
  ASSERT_EQ(cudaGraphLaunch(outer, stream()), cudaSuccess);
  context_.synchronize();
  EXPECT_EQ(value(0), 3);
  cudaGraphExecDestroy(outer);
}

TEST_F(EmulatedGraphs, CapturesBeginAndEndInTurn) {
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed),
            cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream(), &graph), cudaErrorIllegalState);
  ASSERT_EQ(begin(), cudaSuccess);
  EXPECT_EQ(begin(), cudaErrorIllegalState);
  cudaGraphExecDestroy(end());
  EXPECT_EQ(cudaGraphDestroy(graph), cudaErrorInvalidValue);
}

TEST_F(EmulatedGraphs, CapturesDoNotWait) {
  expect_refused(cudaErrorStreamCaptureUnsupported,
                 [&] { return cudaStreamSynchronize(stream()); });
  expect_refused(cudaErrorStreamCaptureUnsupported, [&] { return cudaStreamQuery(stream()); });
  for (const auto mode : {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed})
    expect_refused(cudaErrorStreamCaptureUnsupported, cudaDeviceSynchronize, mode);
  expect_refused(cudaErrorStreamCaptureUnsupported,
                 [&] { return cudaMemcpy(data_, pinned_.data(), kBytes, cudaMemcpyDefault); });
}

TEST_F(EmulatedGraphs, CapturesHaveNoPageableMemory) {
  std::array<int, 32> host = {};
  expect_refused(cudaErrorStreamCaptureUnsupported, [&] {
    return cudaMemcpyAsync(data_, host.data(), kBytes, cudaMemcpyDefault, stream());
  });
  expect_refused(cudaErrorStreamCaptureUnsupported, [&] {
    return cudaMemcpyAsync(host.data(), data_, kBytes, cudaMemcpyDefault, stream());
  });
}

TEST_F(EmulatedGraphs, CapturesForbidAllocationsAsTheirModesSay) {
  const auto elsewhere = [] {
    cudaError_t error = cudaSuccess;
    std::thread([&] { error = allocate_and_free(); }).join();
    return error;
  };
  const auto global = cudaStreamCaptureModeGlobal, local = cudaStreamCaptureModeThreadLocal,
             relaxed = cudaStreamCaptureModeRelaxed;
  expect_refused(cudaErrorStreamCaptureUnsupported, allocate_and_free, global);
  expect_refused(cudaErrorStreamCaptureUnsupported, elsewhere, global);
  expect_refused(cudaErrorStreamCaptureUnsupported, allocate_and_free, local);
  expect_allowed(elsewhere, local);
  expect_allowed(allocate_and_free, relaxed);
  expect_allowed(elsewhere, relaxed);
}

TEST_F(EmulatedGraphs, CapturesEndInTheirThread) {
  expect_refused(cudaErrorStreamCaptureWrongThread, [&] {
    cudaGraph_t graph = nullptr;
    cudaError_t error = cudaSuccess;
    std::thread([&] { error = cudaStreamEndCapture(stream(), &graph); }).join();
    return error;
  });
}

TEST_F(EmulatedGraphs, CapturesStayInTheirStream) {
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event), cudaSuccess);
  expect_refused(cudaErrorStreamCaptureIsolation,
                 [&] { return cudaStreamWaitEvent(stream(), event); });
  expect_refused(cudaErrorNotSupported, [&] { return cudaEventRecord(event, stream()); });
  cudaEventDestroy(event);
}

TEST_F(EmulatedGraphs, LeaksAreFound) {
  EXPECT_EXIT(
      {
        begin();
        end();
        std::exit(0);
      },
      testing::KilledBySignal(SIGABRT), "0 graphs and 1 executable graphs were not destroyed");
}

}  // namespace
}  // namespace turnbench::cuda
