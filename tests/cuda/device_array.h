#pragma once

// Arrays that kernels and tests both reach, with guards around them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "inference/cuda/context.h"
#include "inference/dtype.h"
#include "tests/cuda/orders.h"

namespace turnbench::test {

/// A copy of values in managed memory.  `offset` elements in front of it take it off its alignment;
/// they and the guards on both sides must stay as they are.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values, std::size_t offset = 0)
      : size_(values.size()), begin_(kGuard + offset * sizeof(T)) {
    void* memory = nullptr;
    cuda::check(cudaMallocManaged(&memory, bytes()), "allocating for a test");
    memory_ = static_cast<std::byte*>(memory);
    std::memset(memory_, kPattern, bytes());
    if (!values.empty()) std::memcpy(memory_ + begin_, values.data(), size_ * sizeof(T));
  }
  ~DeviceArray() {
    EXPECT_TRUE(is_guarded()) << "written outside of an array of " << size_;
    cudaFree(memory_);
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() { return reinterpret_cast<T*>(memory_ + begin_); }
  /// What is there once the device has nothing left to do.
  std::vector<T> values() {
    cuda::check(cudaDeviceSynchronize(), "waiting in a test");
    return std::vector<T>(data(), data() + size_);
  }

 private:
  static constexpr std::size_t kGuard = 256;
  static constexpr unsigned char kPattern = 0xA5;

  std::size_t bytes() const { return begin_ + size_ * sizeof(T) + kGuard; }
  bool is_guarded() {
    if (cudaDeviceSynchronize() != cudaSuccess) return false;
    const auto untouched = [](std::byte b) { return b == std::byte{kPattern}; };
    return std::all_of(memory_, memory_ + begin_, untouched) &&
           std::all_of(memory_ + begin_ + size_ * sizeof(T), memory_ + bytes(), untouched);
  }

  std::size_t size_, begin_;
  std::byte* memory_ = nullptr;
};

}  // namespace turnbench::test
