#pragma once

// The state of the emulated device.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "cuda_runtime.h"

struct CUstream_st {
  std::deque<std::function<void()>> tasks;  ///< asked for and not yet run
};

namespace emulation {

constexpr std::size_t kMemoryBytes = std::size_t{16} << 30;

enum class MemoryKind { kDevice, kManaged, kPinned };
struct Allocation {
  std::size_t bytes;
  MemoryKind kind;
};

struct Device {
  std::recursive_mutex mutex;
  std::map<std::uintptr_t, Allocation> allocations;  ///< by address
  std::size_t used = 0;
  CUstream_st default_stream;
  std::set<cudaStream_t> streams;
  std::map<const void*, std::size_t> allowed_shared;  ///< by kernel
  cudaError_t last_error = cudaSuccess;
};
Device& device();

using Lock = std::lock_guard<std::recursive_mutex>;

}  // namespace emulation
