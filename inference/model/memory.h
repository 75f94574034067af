#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace turnbench {

/// A copy of `bytes` bytes.
struct Copy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
};
/// A copy of `count` floats.
inline Copy copy_of(const float* from, float* to, std::size_t count) {
  return {reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(from),
          count * sizeof(float)};
}

/// Pages of one size at equal distances in a Memory: page i begins at base() + i * stride().
class PageRange {
 public:
  virtual ~PageRange() = default;
  PageRange(const PageRange&) = delete;
  PageRange& operator=(const PageRange&) = delete;

  std::byte* base() const { return base_; }
  std::size_t stride() const { return stride_; }  ///< in bytes
  std::size_t size() const { return size_; }      ///< pages that may be used
  std::byte* page(std::size_t i) const { return base_ + i * stride_; }
  /// Makes further pages usable; their contents are undefined.
  /// @throws Error (memory) if none fits.
  virtual void grow() = 0;

 protected:
  PageRange(std::byte* base, std::size_t stride) : base_(base), stride_(stride) {}
  std::size_t size_ = 0;

 private:
  std::byte* base_;
  std::size_t stride_;
};

/// The memory that a backend's operations work on.  The host may access host memory through its
/// pointers after `synchronize` has returned since the last operation on it, and device memory only
/// by `copy`.
class Memory {
 public:
  virtual ~Memory() = default;
  /// Allocates `bytes` bytes at a 64-byte boundary; the contents are undefined.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void release(std::byte* data, std::size_t bytes) noexcept = 0;
  /// A range of pages, of which none is usable before it grows, for operations that address pages
  /// by index.  stride: in bytes, a multiple of 64 below 4 GiB.  The memory must outlive the range.
  /// Null if operations address pages by pointer; they are then parts of blocks of `allocate`.
  virtual std::unique_ptr<PageRange> reserve_pages(std::size_t /*stride*/) { return nullptr; }
  /// Copies within this memory, or between it and host memory, in the order of the backend's
  /// operations.  Copies must not overlap.  Sources in host memory may change after the call;
  /// destinations in host memory are complete when `synchronize` has returned.  Sources may also be
  /// in another backend's memory, if it was synchronized before and does not change them until this
  /// memory is synchronized.
  virtual void copy(std::span<const Copy> copies) = 0;
  /// Returns when all operations so far are complete.
  virtual void synchronize() = 0;
  /// Copies `count` floats and waits until the copy is complete.
  void copy_floats(const float* from, float* to, std::size_t count);
  /// True if this is host memory.
  virtual bool is_host() const = 0;
};

/// Host memory.  Large blocks are aligned to 2 MiB, so that the kernel can use huge pages.
const std::shared_ptr<Memory>& host_memory();

/// Owns a block of bytes of a Memory.
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

/// A scratch array of floats that grows as needed and keeps its size until `release`.
class Scratch {
 public:
  explicit Scratch(std::shared_ptr<Memory> memory = host_memory()) : memory_(std::move(memory)) {}

  /// An array of at least `count` floats; its contents are undefined if it had to grow.
  float* get(std::size_t count) {
    if (count * sizeof(float) > bytes_.size()) {
      bytes_ = Buffer();  // released first: the contents need not be kept
      bytes_ = Buffer(count * sizeof(float), memory_);
    }
    return bytes_.as<float>();
  }
  /// The result of the last `get`.
  float* data() { return bytes_.as<float>(); }
  const float* data() const { return bytes_.as<float>(); }
  std::size_t bytes() const { return bytes_.size(); }
  void release() { bytes_ = Buffer(); }

 private:
  std::shared_ptr<Memory> memory_;
  Buffer bytes_;
};

/// Constant floats in a backend's memory: weights of a norm, or biases.
class WeightVector {
 public:
  WeightVector() = default;
  WeightVector(std::span<const float> values, const std::shared_ptr<Memory>& memory)
      : bytes_(values.size_bytes(), memory) {
    memory->copy_floats(values.data(), bytes_.as<float>(), values.size());
  }

  /// Null if it is empty.
  const float* data() const { return bytes_.as<float>(); }
  std::size_t bytes() const { return bytes_.size(); }

 private:
  Buffer bytes_;
};

}  // namespace turnbench
