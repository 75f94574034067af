#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "inference/cuda/context.h"
#include "inference/cuda/mapped_range.h"
#include "inference/model/memory.h"

namespace turnbench::cuda {

/// Memory of a device, which the host cannot access.  Blocks have sizes of a few classes, and
/// released ones are reused for blocks of the same class, so that steady state needs no allocation
/// from CUDA, even if sizes grow from step to step.  Small blocks are cut from slabs.  Each range
/// of pages reserves addresses for the memory of the whole device, and memory is mapped to them as
/// the range grows; a released range is reused for pages of the same stride.  Released memory is
/// returned to CUDA when another allocation does not fit, and at the end.  The order of the
/// context's stream protects the contents of reused memory.
class DeviceMemory : public Memory {
 public:
  /// @throws Error (runtime) if the device has no virtual memory management.
  explicit DeviceMemory(std::shared_ptr<Context> context);
  ~DeviceMemory() override;

  /// @throws Error (memory) as `allocate_device`.
  std::byte* allocate(std::size_t bytes) override;
  void release(std::byte* data, std::size_t bytes) noexcept override;
  /// Its `grow` throws as `allocate`.
  std::unique_ptr<PageRange> reserve_pages(std::size_t stride) override;
  void copy(std::span<const Copy> copies) override;
  void synchronize() override { context_->synchronize(); }
  bool is_host() const override { return false; }

  /// Bytes allocated from CUDA.
  std::size_t bytes() const;

 private:
  /// A range of pages, of which the first `used` bytes may be used.
  struct Range {
    MappedRange memory;
    std::size_t stride;
    std::size_t used = 0;
    bool is_released = false;
  };
  class Pages;

  std::byte* allocate_block(std::size_t bytes);
  void grow(Range& range);
  bool give_back_released();
  bool owns(const std::byte* data) const;

  std::shared_ptr<Context> context_;
  VirtualMemory virtual_memory_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, Range> ranges_;             // by their first address
  std::map<const std::byte*, std::size_t> blocks_;       // allocated from CUDA, with their sizes
  std::map<std::size_t, std::vector<std::byte*>> free_;  // released blocks, by size class
  std::byte* slab_ = nullptr;
  std::size_t slab_left_ = 0, next_slab_ = std::size_t{4} << 20;
};

/// The size of the block for `bytes` bytes: at most an eighth larger above 2 KiB.
std::size_t size_class(std::size_t bytes);

}  // namespace turnbench::cuda
