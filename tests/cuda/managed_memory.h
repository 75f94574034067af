#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "inference/cuda/context.h"
#include "inference/memory.h"

namespace turnbench::test {

/// Memory that host and device both reach, the host whenever nothing runs.
class ManagedMemory : public Memory {
 public:
  std::byte* allocate(std::size_t bytes) override {
    void* data = nullptr;
    cuda::check(cudaMallocManaged(&data, bytes), "allocating managed memory");
    return static_cast<std::byte*>(data);
  }
  void release(std::byte* data, std::size_t) override { cudaFree(data); }
  void copy(std::span<const Copy> copies) override {
    synchronize();
    for (const Copy& c : copies) std::memcpy(c.to, c.from, c.bytes);
  }
  void synchronize() override { cuda::check(cudaDeviceSynchronize(), "waiting for the device"); }
  bool is_host() const override { return false; }
};

inline const std::shared_ptr<Memory>& managed_memory() {
  static const std::shared_ptr<Memory> memory = std::make_shared<ManagedMemory>();
  return memory;
}

/// Floats in managed memory.
class ManagedFloats {
 public:
  explicit ManagedFloats(const std::vector<float>& values)
      : buffer_(values.size() * sizeof(float), managed_memory()) {
    if (!values.empty()) std::memcpy(buffer_.data(), values.data(), buffer_.size());
  }
  explicit ManagedFloats(std::size_t count) : ManagedFloats(std::vector<float>(count, -1)) {}
  float* data() { return buffer_.as<float>(); }
  std::vector<float> values() const {
    managed_memory()->synchronize();
    const float* data = buffer_.as<float>();
    return {data, data + buffer_.size() / sizeof(float)};
  }

 private:
  Buffer buffer_;
};

}  // namespace turnbench::test
