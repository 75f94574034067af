#pragma once

#include <cstddef>
#include <vector>

#include "inference/cuda/context.h"

namespace turnbench::test {

/// Pinned host memory, which both kernels and the host access.
template <typename T>
struct PinnedAllocator {
  using value_type = T;
  PinnedAllocator() = default;
  template <typename Other>
  PinnedAllocator(const PinnedAllocator<Other>&) {}

  T* allocate(std::size_t count) {
    void* data = nullptr;
    cuda::check(cudaMallocHost(&data, count * sizeof(T)), "allocating pinned memory in a test");
    return static_cast<T*>(data);
  }
  void deallocate(T* data, std::size_t) { cudaFreeHost(data); }
  bool operator==(const PinnedAllocator&) const { return true; }
};

template <typename T>
using PinnedVector = std::vector<T, PinnedAllocator<T>>;

}  // namespace turnbench::test
