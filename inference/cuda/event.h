#pragma once

#include <cuda_runtime.h>

namespace turnbench::cuda {

/// A CUDA event on the device that is current at construction.
class Event {
 public:
  /// flags: cudaEventDefault for an event with a time stamp.
  explicit Event(unsigned flags = cudaEventDisableTiming);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// Records the event after all work submitted to `stream` so far.
  void record(cudaStream_t stream);
  /// Makes later work of `stream` wait for the last recorded point.
  void block(cudaStream_t stream) const;
  /// Returns when the recorded work is complete.
  void synchronize() const;
  /// The time in seconds between two events that have time stamps and are complete.
  double seconds_until(const Event& end) const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace turnbench::cuda
