#pragma once

// The state of the emulated devices: one machine's, whose kernels run one after the other.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda_runtime.h"

namespace emulation {

constexpr int kDevices = 2;
constexpr std::size_t kMemoryBytes = std::size_t{16} << 30;  // of each

/// The one that the calling thread has chosen.
int current_device();

}  // namespace emulation

struct CUstream_st {
  std::deque<std::function<void()>> tasks;  ///< asked for and not yet run
  int device = emulation::current_device();
};

namespace emulation {

enum class MemoryKind { kDevice, kManaged, kPinned };
struct Allocation {
  std::size_t bytes;
  MemoryKind kind;
  int device;
};

struct Device {
  std::recursive_mutex mutex;
  std::map<std::uintptr_t, Allocation> allocations;  ///< by address
  std::size_t used[kDevices] = {};
  CUstream_st default_stream;
  std::vector<cudaStream_t> streams;  ///< in the order in which they were made
  /// By device and kernel.
  std::map<std::pair<int, const void*>, std::size_t> allowed_shared;
  cudaError_t last_error = cudaSuccess;
};
Device& device();

using Lock = std::lock_guard<std::recursive_mutex>;

}  // namespace emulation
