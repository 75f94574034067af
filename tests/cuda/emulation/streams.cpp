#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "cuda_runtime.h"
#include "device.h"

using emulation::device, emulation::Lock;

struct CUevent_st {
  /// A point in a stream's order.
  struct Point {
    cudaStream_t stream = nullptr;
    bool done = true;
    std::chrono::steady_clock::time_point time = {};
  };
  /// The last recorded point; a stream that waits for an earlier one keeps that point.
  std::shared_ptr<Point> point = std::make_shared<Point>();
};
using Point = CUevent_st::Point;

CUstream_st& emulation::stream_of(cudaStream_t stream) {
  return stream == nullptr ? device().default_stream : *stream;
}

namespace {

using emulation::stream_of;

void run_first(CUstream_st& stream) {
  const auto task = std::move(stream.tasks.front());
  stream.tasks.pop_front();
  task();
}

void drain(CUstream_st& stream) {
  if (stream.tasks.empty()) return;
  const emulation::Opened memory;
  while (!stream.tasks.empty()) run_first(stream);
}

void reach(const Point& point) {
  if (point.done) return;
  const emulation::Opened memory;
  while (!point.done) run_first(stream_of(point.stream));
}

/// Runs every stream as far as the order of threads specifies.
void run_early() {
  const auto run = [](CUstream_st& stream) {
    while (!stream.tasks.empty() && emulation::is_early()) {
      const emulation::Opened memory;
      run_first(stream);
    }
  };
  run(device().default_stream);
  for (cudaStream_t stream : device().streams) run(*stream);
}

}  // namespace

void emulation::drain_all() {
  const Lock lock(device().mutex);
  drain(device().default_stream);
  for (cudaStream_t stream : device().streams) drain(*stream);
}

cudaError_t emulation::enqueue(cudaStream_t stream, Task task) {
  const Lock lock(device().mutex);
  CUstream_st& s = stream_of(stream);
  if (!s.capture) {
    s.tasks.push_back(std::move(task));
    run_early();
  } else if (s.capture->valid) {
    s.capture->tasks.push_back(std::move(task));
  } else {
    return cudaErrorStreamCaptureInvalidated;
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  const Lock lock(device().mutex);
  cudaError_t error = cudaSuccess;
  for (cudaStream_t stream : device().streams) {
    if (stream->capture && stream->device == emulation::current_device())
      error = emulation::refuse_in_capture(stream);
  }
  if (error != cudaSuccess) return error;
  ++emulation::counted().waits;
  emulation::drain_all();
  return emulation::lost_error();
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const Lock lock(device().mutex);
  if (const auto error = emulation::lost_error(); error != cudaSuccess) return error;
  *stream = new CUstream_st;
  device().streams.push_back(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Lock lock(device().mutex);
  if (std::erase(device().streams, stream) == 0) return cudaErrorInvalidResourceHandle;
  drain(*stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Lock lock(device().mutex);
  if (stream_of(stream).capture) return emulation::refuse_in_capture(stream);
  ++emulation::counted(stream)->waits;
  drain(stream_of(stream));
  return emulation::is_lost(stream_of(stream).device) ? cudaErrorIllegalAddress : cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Lock lock(device().mutex);
  if (stream_of(stream).capture) return emulation::refuse_in_capture(stream);
  if (const auto error = emulation::lost_error(); error != cudaSuccess) return error;
  return stream_of(stream).tasks.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Lock lock(device().mutex);
  if (stream_of(stream).capture) {  // and no event is recorded in a capture
    return emulation::refuse_in_capture(stream, cudaErrorStreamCaptureIsolation);
  }
  if (event->point->done) return cudaSuccess;
  return emulation::enqueue(stream, [point = event->point] { reach(*point); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Lock lock(device().mutex);
  if (stream_of(stream).capture) {
    return emulation::refuse_in_capture(stream, cudaErrorNotSupported);
  }
  event->point = std::make_shared<Point>(Point{.stream = stream, .done = false});
  return emulation::enqueue(stream, [point = event->point] {
    point->time = std::chrono::steady_clock::now();
    point->done = true;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Lock lock(device().mutex);
  if (const auto error = emulation::refuse_in_captures(); error != cudaSuccess) return error;
  ++emulation::counted().waits;
  reach(*event->point);
  return emulation::lost_error();
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Lock lock(device().mutex);
  if (const auto error = emulation::refuse_in_captures(); error != cudaSuccess) return error;
  return event->point->done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const Lock lock(device().mutex);
  const Point &begin = *from->point, &end = *to->point;
  if (!begin.done || !end.done) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(end.time - begin.time).count();
  return cudaSuccess;
}
