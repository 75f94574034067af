#pragma once

#include <memory>
#include <vector>

#include "inference/cuda/context.h"
#include "inference/cuda/mapped_range.h"
#include "inference/kv/kv_cache.h"
#include "inference/model/memory.h"

namespace turnbench::test {

/// A range of up to 1 GiB of pages, which waits for everything before it is released.
class PlainPages : public PageRange {
 public:
  PlainPages(std::unique_ptr<cuda::MappedRange> range, std::size_t stride)
      : PageRange(range->data(), stride), range_(std::move(range)) {}
  ~PlainPages() override { cudaDeviceSynchronize(); }
  void grow() override {
    if (!range_->extend(std::size_t{2} << 20)) throw runtime_error("found no memory for pages");
    size_ = range_->mapped() / stride();
  }

 private:
  std::unique_ptr<cuda::MappedRange> range_;
};

/// Device memory whose copies wait for everything.
class PlainDeviceMemory : public Memory {
 public:
  std::byte* allocate(std::size_t bytes) override {
    void* data = nullptr;
    cuda::check(cudaMalloc(&data, bytes), "allocating for a test");
    return static_cast<std::byte*>(data);
  }
  void release(std::byte* data, std::size_t) noexcept override { cudaFree(data); }
  std::unique_ptr<PageRange> reserve_pages(std::size_t stride) override {
    return std::make_unique<PlainPages>(
        std::make_unique<cuda::MappedRange>(virtual_memory_, std::size_t{1} << 30), stride);
  }
  void copy(std::span<const Copy> copies) override {
    synchronize();
    for (const Copy& c : copies)
      cuda::check(cudaMemcpy(c.to, c.from, c.bytes, cudaMemcpyDefault), "copying in a test");
  }
  void synchronize() override { cuda::check(cudaDeviceSynchronize(), "waiting for the device"); }
  bool is_host() const override { return false; }

 private:
  cuda::VirtualMemory virtual_memory_{0};
};

inline const std::shared_ptr<Memory>& plain_device_memory() {
  static const std::shared_ptr<Memory> memory = std::make_shared<PlainDeviceMemory>();
  return memory;
}

/// Floats in device memory.
class DeviceFloats {
 public:
  explicit DeviceFloats(const std::vector<float>& values)
      : buffer_(values.size() * sizeof(float), plain_device_memory()) {
    plain_device_memory()->copy_floats(values.data(), data(), values.size());
  }
  explicit DeviceFloats(std::size_t count) : DeviceFloats(std::vector<float>(count, -1)) {}
  float* data() { return buffer_.as<float>(); }
  const float* data() const { return buffer_.as<float>(); }
  std::vector<float> values() const {
    std::vector<float> out(buffer_.size() / sizeof(float));
    plain_device_memory()->copy_floats(buffer_.as<float>(), out.data(), out.size());
    return out;
  }

 private:
  Buffer buffer_;
};

/// A copy of a set in device memory.
inline KvHeadCache on_device(const KvHeadCache& host) {
  auto pool = std::make_shared<KvPool>(host.layout(), plain_device_memory());
  KvHeadCache out = KvHeadCache::working_set(std::move(pool), host.size());
  std::vector<Copy> copies;
  out.place(0, host, 0, host.size(), copies);
  plain_device_memory()->copy(copies);
  return out;
}

}  // namespace turnbench::test
