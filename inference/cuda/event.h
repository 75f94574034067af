#pragma once

#include <cuda_runtime.h>

namespace turnbench::cuda {

/// A point in a stream's order, on the device that is current when the event is made.
class Event {
 public:
  /// cudaEventDefault: one whose time is taken.
  explicit Event(unsigned flags = cudaEventDisableTiming);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// Makes it the point behind everything that `stream` was asked so far.
  void record(cudaStream_t stream);
  /// What `stream` is asked from now on waits for the point that is recorded now.
  void block(cudaStream_t stream) const;
  /// Returns when the stream has got there.
  void synchronize() const;
  /// Between two events that record time and have been waited for.
  double seconds_until(const Event& end) const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace turnbench::cuda
