#pragma once

// What programs ask of an emulated device, and how long the host and the link would take for that.

#include <cstddef>

namespace emulation {

/// Copies of one kind.
struct CopyCounter {
  std::size_t count = 0, bytes = 0;
};

/// Calls that were accepted.  What a stream captures counts when its graph is launched.
struct Counters {
  std::size_t launches = 0;  ///< of kernels and matrix products, without those of graphs
  std::size_t graph_launches = 0, graph_nodes = 0;  ///< nodes: all that these launches run
  CopyCounter up_pinned, up_pageable;               ///< from host to device, by the host's memory
  CopyCounter down_pinned, down_pageable;           ///< from device to host
  CopyCounter within;     ///< from device to device, also to another device
  std::size_t fills = 0;  ///< cudaMemset and cudaMemsetAsync
  /// Calls in which the host waits: for a stream, a device or an event, even if that is done
  /// already; copies without Async, and those from a device to pageable memory; cudaFree.
  std::size_t waits = 0;
  std::size_t allocations = 0;  ///< of device and pinned memory

  std::size_t copies() const {
    return up_pinned.count + up_pageable.count + down_pinned.count + down_pageable.count +
           within.count;
  }
  /// Seconds of an H100's host and link one after the other, none of them hidden behind another:
  /// 2.5 us a launch, 1.2 us a node of a graph, 2 us a copy or fill and 25 GB/s over the link (4
  /// GB/s from and to pageable memory), 10 us a wait.  Kernels and copies within a device take no
  /// time beside their launch, so this is not the time of a program.
  double seconds() const;
};

/// What was counted after `from`.
Counters operator-(const Counters& to, const Counters& from);

/// Of one device since the program began or `reset_counters`.  Launches, copies and waits for a
/// stream belong to the stream's device, all else to that of the calling thread.
Counters counters(int device = 0);
void reset_counters();

}  // namespace emulation
