#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "inference/kv/kv_cache.h"

namespace turnbench::cuda {

/// @throws Error (runtime) if the pages of a KV set are in host memory, which kernels cannot read.
void check_on_device(const KvHeadCache& set);

/// The pages of a set for kernels: indices of pages in the range that begins at `base`.
struct PageTable {
  const std::byte* base = nullptr;
  const std::uint32_t* indices = nullptr;
  std::uint32_t stride = 0;  ///< of the range, in bytes

  /// @param indices indices of the set's pages, from any page on, in device memory.
  static PageTable of(const KvHeadCache& set, const std::uint32_t* indices) {
    return {set.pool()->base(), indices, static_cast<std::uint32_t>(set.pool()->stride())};
  }

  __device__ const std::byte* operator[](int i) const {
    return base + std::uint64_t{indices[i]} * stride;
  }
};

/// A KV set for kernels.  Everything that it points to is in device memory.
struct SetView {
  PageTable pages;
  ElementLayout layout;
  int size = 0;
  bool contiguous = false;  ///< slot i holds position i, for all slots

  template <typename T>
  __device__ const T* key(int slot) const {
    return reinterpret_cast<const T*>(pages[slot / kPageTokens]) +
           static_cast<std::size_t>(slot % kPageTokens) * layout.head_dim;
  }
  template <typename T>
  __device__ const T* value(int slot) const {
    return reinterpret_cast<const T*>(pages[slot / kPageTokens] + layout.value_offset()) +
           static_cast<std::size_t>(slot % kPageTokens) * layout.head_dim;
  }
  __device__ std::int32_t position(int slot) const {
    return reinterpret_cast<const std::int32_t*>(pages[slot / kPageTokens] +
                                                 layout.position_offset())[slot % kPageTokens];
  }
  /// The first slot with a position of at least `wanted`; `size` if there is none.
  __device__ int lower_bound(std::int32_t wanted) const {
    int low = 0, high = size;
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (position(middle) < wanted) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

}  // namespace turnbench::cuda
