#pragma once

// The state of the emulated devices of one machine.  Their kernels run one after the other.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "counters.h"
#include "cuda_runtime.h"
#include "device_range.h"
#include "mapped_memory.h"

namespace emulation {

constexpr int kDevices = 2;
constexpr std::size_t kMemoryBytes = std::size_t{16} << 30;  // of each, unless limited

/// The current device of the calling thread.
int current_device();

using Task = std::function<void()>;

/// The operations of a stream between the beginning and the end of a capture.
struct Capture {
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  bool valid = true;
  std::vector<Task> tasks = {};
};

}  // namespace emulation

struct CUstream_st {
  std::deque<emulation::Task> tasks;  ///< submitted and not yet run
  int device = emulation::current_device();
  std::optional<emulation::Capture> capture = {};
};
struct CUgraph_st {
  std::vector<emulation::Task> tasks;
};
struct CUgraphExec_st {
  std::vector<emulation::Task> tasks;
};

namespace emulation {

enum class MemoryKind { kDevice, kPinned };
struct Allocation {
  std::size_t bytes;
  MemoryKind kind;
  int device;
  bool is_mapped = false;  ///< by cuMemMap; adjacent allocations of a range are one
};

/// See faults.h.
struct Faults {
  Faults();
  std::size_t allocations_left;  ///< before they fail, and one; 0: none does
  std::size_t launches_left;     ///< with the one that fails; 0: none does
  bool lost[kDevices] = {};
};

struct Device {
  ~Device();

  std::recursive_mutex mutex;
  DeviceRange range;
  MappedMemory mapped;
  std::map<std::uintptr_t, Allocation> allocations;  ///< by address
  std::size_t memory_bytes = kMemoryBytes;           ///< of each device
  std::size_t used[kDevices] = {};
  CUstream_st default_stream;
  std::vector<cudaStream_t> streams;  ///< in the order in which they were made
  /// By device and kernel.
  std::map<std::pair<int, const void*>, std::size_t> allowed_shared;
  cudaError_t last_error = cudaSuccess, count_error = cudaSuccess;
  int driver_version = CUDART_VERSION;
  Faults faults;
  std::set<cudaGraph_t> graphs;
  std::set<cudaGraphExec_t> graph_execs;
  Counters counters[kDevices];
};
Device& device();

CUstream_st& stream_of(cudaStream_t stream);
/// The allocation that `data` points into, and its first address; null for pageable host memory.
const Allocation* allocation_of(const void* data, std::uintptr_t* begin = nullptr);
/// Whether this allocation must fail.
bool allocation_fails();
bool is_lost(int number);
/// The error of every call for a device that is lost.
cudaError_t lost_error();
/// The counters of the calling thread's device.
Counters& counted();
/// The counters of a stream; null while it captures.
Counters* counted(cudaStream_t stream);
/// Runs the submitted operations of all streams.
void drain_all();

/// The error of a call that is forbidden for a stream while it captures; invalidates the capture.
cudaError_t refuse_in_capture(cudaStream_t stream,
                              cudaError_t error = cudaErrorStreamCaptureUnsupported);
/// The same for a call that the modes of the current captures forbid in every stream.
cudaError_t refuse_in_captures();

using Lock = std::lock_guard<std::recursive_mutex>;

/// Device memory is accessible while an object exists, under the device's mutex.
class Opened {
 public:
  Opened() {
    device().range.open();
    device().mapped.open();
  }
  ~Opened() {
    device().mapped.close();
    device().range.close();
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
};

}  // namespace emulation
