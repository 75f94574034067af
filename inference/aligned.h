#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace turnbench {

/// Owned bytes at a 64-byte boundary, so that vector loads never straddle a cache line at a row's
/// start.  Large blocks are aligned to 2 MiB, where the kernel can back them with huge pages.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(std::size_t size) : size_(size) {
    if (size == 0) return;
    const std::size_t alignment = size >= (std::size_t{4} << 20) ? std::size_t{2} << 20 : 64;
    void* data = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (data == nullptr) throw std::bad_alloc();
    data_.reset(static_cast<std::byte*>(data));
    advise_huge_pages();
  }

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data_.get());
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_.get());
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  void advise_huge_pages();

  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

/// Float scratch that grows and is never cleared.
class Scratch {
 public:
  float* get(std::size_t count) {
    if (count * sizeof(float) > bytes_.size()) {
      bytes_ = {};  // first: nothing in it is needed
      bytes_ = AlignedBytes(count * sizeof(float));
    }
    return bytes_.as<float>();
  }
  std::size_t bytes() const { return bytes_.size(); }

 private:
  AlignedBytes bytes_;
};

}  // namespace turnbench
