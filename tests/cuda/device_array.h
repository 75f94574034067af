#pragma once

// Arrays in device memory, with guards around them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "inference/cuda/context.h"
#include "inference/model/dtype.h"
#include "tests/cuda/orders.h"

namespace turnbench::test {

/// A copy of values in device memory.  `offset` elements before it make it unaligned.  These
/// elements and the guards on both sides must not change.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values, std::size_t offset = 0)
      : size_(values.size()), begin_(kGuard + offset * sizeof(T)) {
    void* memory = nullptr;
    cuda::check(cudaMalloc(&memory, bytes()), "allocating for a test");
    memory_ = static_cast<std::byte*>(memory);
    cuda::check(cudaMemset(memory_, kPattern, bytes()), "filling in a test");
    write(values);
  }
  ~DeviceArray() {
    EXPECT_TRUE(is_guarded()) << "written outside of an array of " << size_;
    cudaFree(memory_);
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() { return reinterpret_cast<T*>(memory_ + begin_); }
  /// The values after the device has finished all its work.
  std::vector<T> values() {
    std::vector<T> out(size_);
    copy(out.data(), data(), size_ * sizeof(T));
    return out;
  }
  /// Other values for the first elements.
  void write(const std::vector<T>& values) {
    copy(data(), values.data(), values.size() * sizeof(T));
  }

 private:
  static constexpr std::size_t kGuard = 256;
  static constexpr unsigned char kPattern = 0xA5;

  std::size_t bytes() const { return begin_ + size_ * sizeof(T) + kGuard; }
  static void copy(void* to, const void* from, std::size_t bytes) {
    cuda::check(cudaDeviceSynchronize(), "waiting in a test");
    if (bytes > 0) cuda::check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "copying in a test");
  }
  bool is_guarded() {
    if (cudaDeviceSynchronize() != cudaSuccess) return false;
    std::vector<std::byte> all(bytes());
    if (cudaMemcpy(all.data(), memory_, bytes(), cudaMemcpyDefault) != cudaSuccess) return false;
    const auto untouched = [](std::byte b) { return b == std::byte{kPattern}; };
    return std::all_of(all.begin(), all.begin() + begin(), untouched) &&
           std::all_of(all.begin() + begin() + values_bytes(), all.end(), untouched);
  }
  std::ptrdiff_t begin() const { return static_cast<std::ptrdiff_t>(begin_); }
  std::ptrdiff_t values_bytes() const { return static_cast<std::ptrdiff_t>(size_ * sizeof(T)); }

  std::size_t size_, begin_;
  std::byte* memory_ = nullptr;
};

}  // namespace turnbench::test
