#include "inference/cuda/event.h"

#include "inference/cuda/context.h"

namespace turnbench::cuda {

Event::Event(unsigned flags) {
  check(cudaEventCreateWithFlags(&event_, flags), "making an event");
}

Event::~Event() {
  cudaEventDestroy(event_);
}

void Event::record(cudaStream_t stream) {
  check(cudaEventRecord(event_, stream), "recording an event");
}

void Event::block(cudaStream_t stream) const {
  check(cudaStreamWaitEvent(stream, event_, 0), "letting a stream wait for an event");
}

void Event::synchronize() const {
  check(cudaEventSynchronize(event_), "waiting for an event");
}

double Event::seconds_until(const Event& end) const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, event_, end.event_),
        "asking for the time between events");
  return static_cast<double>(milliseconds) / 1000;
}

}  // namespace turnbench::cuda
