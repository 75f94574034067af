#include <cstdio>
#include <cstdlib>
#include <utility>

#include "cuda_runtime.h"
#include "device.h"

using emulation::device, emulation::Lock, emulation::Capture, emulation::stream_of;

namespace {

cudaError_t invalidate(Capture& capture, cudaError_t error) {
  return std::exchange(capture.valid, false) ? error : cudaErrorStreamCaptureInvalidated;
}

}  // namespace

emulation::Device::~Device() {
  if (graphs.empty() && graph_execs.empty()) return;
  std::fprintf(stderr, "emulated card: %zu graphs and %zu executable graphs were not destroyed\n",
               graphs.size(), graph_execs.size());
  std::abort();
}

cudaError_t emulation::refuse_in_capture(cudaStream_t stream, cudaError_t error) {
  return invalidate(*stream_of(stream).capture, error);
}

cudaError_t emulation::refuse_in_captures() {
  const Lock lock(device().mutex);
  cudaError_t error = cudaSuccess;
  for (cudaStream_t stream : device().streams) {
    if (!stream->capture) continue;
    const Capture& c = *stream->capture;
    const bool own = c.thread == std::this_thread::get_id();
    if (own ? c.mode != cudaStreamCaptureModeRelaxed : c.mode == cudaStreamCaptureModeGlobal) {
      error = refuse_in_capture(stream);
    }
  }
  return error;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const Lock lock(device().mutex);
  if (stream == nullptr) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture) return cudaErrorIllegalState;
  stream->capture = Capture{mode, std::this_thread::get_id()};
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Lock lock(device().mutex);
  *graph = nullptr;
  std::optional<Capture>& capture = stream_of(stream).capture;
  if (!capture) return cudaErrorIllegalState;
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id()) {
    return invalidate(*capture, cudaErrorStreamCaptureWrongThread);
  }
  const Capture ended = std::move(*capture);
  capture.reset();
  if (!ended.valid) return cudaErrorStreamCaptureInvalidated;
  *graph = new CUgraph_st{ended.tasks};
  device().graphs.insert(*graph);
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const Lock lock(device().mutex);
  const std::optional<Capture>& capture = stream_of(stream).capture;
  *status = !capture         ? cudaStreamCaptureStatusNone
            : capture->valid ? cudaStreamCaptureStatusActive
                             : cudaStreamCaptureStatusInvalidated;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  const Lock lock(device().mutex);
  if (!device().graphs.contains(graph)) return cudaErrorInvalidValue;
  *exec = new CUgraphExec_st{graph->tasks};
  device().graph_execs.insert(*exec);
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const Lock lock(device().mutex);
  if (!device().graph_execs.contains(exec)) return cudaErrorInvalidValue;
  if (emulation::Counters* c = emulation::counted(stream)) {
    ++c->graph_launches;
    c->graph_nodes += exec->tasks.size();
  }
  cudaError_t error = cudaSuccess;
  for (const emulation::Task& task : exec->tasks) error = emulation::enqueue(stream, task);
  return error;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const Lock lock(device().mutex);
  if (device().graphs.erase(graph) == 0) return cudaErrorInvalidValue;
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  const Lock lock(device().mutex);
  if (device().graph_execs.erase(exec) == 0) return cudaErrorInvalidValue;
  delete exec;
  return cudaSuccess;
}
