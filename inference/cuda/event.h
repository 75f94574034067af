#pragma once

#include <cuda_runtime.h>

namespace turnbench::cuda {

/// A CUDA event on the device that is current when it is made.
class Event {
 public:
  /// flags: cudaEventDefault for an event that records the time.
  explicit Event(unsigned flags = cudaEventDisableTiming);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// Records the event after all work that is in `stream` so far.
  void record(cudaStream_t stream);
  /// Makes later work of `stream` wait for the last recorded point.
  void block(cudaStream_t stream) const;
  /// Returns when the recorded work is complete.
  void synchronize() const;
  /// The time between two events that record it and are complete, in seconds.
  double seconds_until(const Event& end) const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace turnbench::cuda
