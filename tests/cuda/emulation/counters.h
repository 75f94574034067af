#pragma once

// Counts the operations of an emulated device, and estimates the time that the host and the link
// would take for them.

#include <cstddef>

namespace emulation {

/// Copies of one kind.
struct CopyCounter {
  std::size_t count = 0, bytes = 0;
};

/// Calls that were accepted.  Captured operations count when their graph is launched.
struct Counters {
  std::size_t launches = 0;  ///< of kernels and matrix products, without those of graphs
  std::size_t graph_launches = 0, graph_nodes = 0;  ///< nodes: all nodes of these launches
  CopyCounter up_pinned, up_pageable;               ///< from host to device, by the host's memory
  CopyCounter down_pinned, down_pageable;           ///< from device to host
  CopyCounter within;     ///< from device to device, also to another device
  std::size_t fills = 0;  ///< cudaMemset and cudaMemsetAsync
  /// Calls in which the host waits: for a stream, a device or an event, even if it has finished
  /// already; copies without Async, and copies from a device to pageable memory; cudaFree.
  std::size_t waits = 0;
  std::size_t allocations = 0;  ///< of device and pinned memory

  std::size_t copies() const {
    return up_pinned.count + up_pageable.count + down_pinned.count + down_pageable.count +
           within.count;
  }
  /// Estimated seconds of the host and the link of an H100, without any overlap: 2.5 us per launch,
  /// 1.2 us per graph node, 2 us per copy or fill and 25 GB/s over the link (4 GB/s from and to
  /// pageable memory), 10 us per wait.  Kernels and copies within a device take no time except for
  /// their launch, so this is not the time of a program.
  double seconds() const;
};

/// The difference of two counts.
Counters operator-(const Counters& to, const Counters& from);

/// Counters of one device since the program began or since `reset_counters`.  Launches, copies and
/// waits for a stream belong to the stream's device, all other calls to the device of the calling
/// thread.
Counters counters(int device = 0);
void reset_counters();

}  // namespace emulation
