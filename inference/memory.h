#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace turnbench {

/// `bytes` bytes to be copied.
struct Copy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
};
/// Of `count` floats.
inline Copy copy_of(const float* from, float* to, std::size_t count) {
  return {reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(from),
          count * sizeof(float)};
}

/// Memory that a backend's operations work on.  The host can reach all of it through its pointers,
/// but may do so only when `synchronize` has returned since the last operation on it; a backend
/// with memory of its own brings what the host touches over and back, which takes time.
class Memory {
 public:
  virtual ~Memory() = default;
  /// Bytes at a 64-byte boundary, contents undefined.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void release(std::byte* data, std::size_t bytes) = 0;
  /// Copies that do not overlap, between this memory and itself or the host's, in the order of the
  /// backend's operations.  What is copied from the host may change at once; what is copied to it
  /// is there when `synchronize` has returned.  They may also come from another backend's memory,
  /// if that one has finished and leaves what is copied as it is until this one has.
  virtual void copy(std::span<const Copy> copies) = 0;
  /// Returns when every operation asked so far is done.
  virtual void synchronize() = 0;
  /// One copy of `count` floats, which is there on return.
  void copy_floats(const float* from, float* to, std::size_t count);
  /// Whether the host reads and writes it as fast as any other.
  virtual bool is_host() const = 0;
};

/// The host's own.  Large blocks are aligned to 2 MiB, where the kernel can back them with huge
/// pages.
const std::shared_ptr<Memory>& host_memory();

/// Owned bytes of a memory.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t size, std::shared_ptr<Memory> memory = host_memory())
      : memory_(std::move(memory)),
        data_(size == 0 ? nullptr : memory_->allocate(size)),
        size_(size) {}
  ~Buffer() {
    if (data_ != nullptr) memory_->release(data_, size_);
  }
  Buffer(Buffer&& other) noexcept
      : memory_(std::move(other.memory_)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }

 private:
  std::shared_ptr<Memory> memory_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Float scratch that grows and is never cleared.
class Scratch {
 public:
  explicit Scratch(std::shared_ptr<Memory> memory = host_memory()) : memory_(std::move(memory)) {}

  float* get(std::size_t count) {
    if (count * sizeof(float) > bytes_.size()) {
      bytes_ = Buffer();  // first: nothing in it is needed
      bytes_ = Buffer(count * sizeof(float), memory_);
    }
    return bytes_.as<float>();
  }
  /// What the last `get` gave.
  float* data() { return bytes_.as<float>(); }
  const float* data() const { return bytes_.as<float>(); }
  std::size_t bytes() const { return bytes_.size(); }

 private:
  std::shared_ptr<Memory> memory_;
  Buffer bytes_;
};

/// Constant floats in a backend's memory: norm weights and biases.
class WeightVector {
 public:
  WeightVector() = default;
  WeightVector(std::span<const float> values, const std::shared_ptr<Memory>& memory)
      : bytes_(values.size_bytes(), memory) {
    memory->copy_floats(values.data(), bytes_.as<float>(), values.size());
  }

  /// Null if there are none.
  const float* data() const { return bytes_.as<float>(); }
  std::size_t bytes() const { return bytes_.size(); }

 private:
  Buffer bytes_;
};

}  // namespace turnbench
