#include <chrono>
#include <utility>

#include "cuda_runtime.h"
#include "device.h"

using emulation::device, emulation::Lock;

struct CUevent_st {
  std::chrono::steady_clock::time_point time;
  cudaStream_t stream = nullptr;  ///< that it was last recorded in
  bool done = true;
};

namespace {

CUstream_st& stream_of(cudaStream_t stream) {
  return stream == nullptr ? device().default_stream : *stream;
}

void run_first(CUstream_st& stream) {
  const auto task = std::move(stream.tasks.front());
  stream.tasks.pop_front();
  task();
}

void drain(CUstream_st& stream) {
  while (!stream.tasks.empty()) run_first(stream);
}

void finish(const CUevent_st& event) {
  while (!event.done) run_first(stream_of(event.stream));
}

}  // namespace

void emulation::enqueue(cudaStream_t stream, std::function<void()> task) {
  const Lock lock(device().mutex);
  stream_of(stream).tasks.push_back(std::move(task));
}

cudaError_t cudaDeviceSynchronize() {
  const Lock lock(device().mutex);
  drain(device().default_stream);
  for (cudaStream_t stream : device().streams) drain(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const Lock lock(device().mutex);
  *stream = new CUstream_st;
  device().streams.insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Lock lock(device().mutex);
  if (device().streams.erase(stream) == 0) return cudaErrorInvalidResourceHandle;
  drain(*stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Lock lock(device().mutex);
  drain(stream_of(stream));
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Lock lock(device().mutex);
  return stream_of(stream).tasks.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Lock lock(device().mutex);
  if (event->done) return cudaSuccess;
  // What is recorded later in the same event is not waited for: the stream of now is drained up to
  // it, which was recorded before.
  emulation::enqueue(stream, [event] { finish(*event); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  cudaEventSynchronize(event);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Lock lock(device().mutex);
  finish(*event);
  event->stream = stream;
  event->done = false;
  emulation::enqueue(stream, [event] {
    event->time = std::chrono::steady_clock::now();
    event->done = true;
  });
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Lock lock(device().mutex);
  finish(*event);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Lock lock(device().mutex);
  return event->done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const Lock lock(device().mutex);
  if (!from->done || !to->done) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(to->time - from->time).count();
  return cudaSuccess;
}
