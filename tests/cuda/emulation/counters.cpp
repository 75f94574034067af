#include "counters.h"

#include "device.h"

namespace emulation {
namespace {

constexpr double kLaunch = 2.5e-6, kNode = 1.2e-6, kCopy = 2e-6, kWait = 10e-6;  // seconds
constexpr double kPinnedRate = 25e9, kPageableRate = 4e9;                        // bytes/s

CopyCounter operator-(const CopyCounter& to, const CopyCounter& from) {
  return {to.count - from.count, to.bytes - from.bytes};
}

double seconds_of(const CopyCounter& copies, double rate) {
  return static_cast<double>(copies.count) * kCopy + static_cast<double>(copies.bytes) / rate;
}

}  // namespace

double Counters::seconds() const {
  return static_cast<double>(launches + graph_launches) * kLaunch +
         static_cast<double>(graph_nodes) * kNode +
         static_cast<double>(within.count + fills) * kCopy + seconds_of(up_pinned, kPinnedRate) +
         seconds_of(down_pinned, kPinnedRate) + seconds_of(up_pageable, kPageableRate) +
         seconds_of(down_pageable, kPageableRate) + static_cast<double>(waits) * kWait;
}

Counters operator-(const Counters& to, const Counters& from) {
  return {.launches = to.launches - from.launches,
          .graph_launches = to.graph_launches - from.graph_launches,
          .graph_nodes = to.graph_nodes - from.graph_nodes,
          .up_pinned = to.up_pinned - from.up_pinned,
          .up_pageable = to.up_pageable - from.up_pageable,
          .down_pinned = to.down_pinned - from.down_pinned,
          .down_pageable = to.down_pageable - from.down_pageable,
          .within = to.within - from.within,
          .fills = to.fills - from.fills,
          .waits = to.waits - from.waits,
          .allocations = to.allocations - from.allocations};
}

Counters counters(int number) {
  const Lock lock(device().mutex);
  return device().counters[number];
}

void reset_counters() {
  const Lock lock(device().mutex);
  for (Counters& c : device().counters) c = {};
}

Counters& counted() {
  return device().counters[current_device()];
}

Counters* counted(cudaStream_t stream) {
  CUstream_st& s = stream_of(stream);
  return s.capture ? nullptr : &device().counters[s.device];
}

void count_launch(cudaStream_t stream) {
  const Lock lock(device().mutex);
  if (Counters* c = counted(stream)) ++c->launches;
}

}  // namespace emulation
