#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "inference/cuda/context.h"
#include "inference/memory.h"

namespace turnbench::cuda {

/// Device memory that the host can also access: managed memory whose preferred location is the
/// device.  Small blocks are cut from slabs and reused for blocks of the same size, so that nothing
/// is allocated from CUDA in steady state.  Slabs are freed at the end, large blocks when they are
/// released.
class DeviceMemory : public Memory {
 public:
  explicit DeviceMemory(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  ~DeviceMemory() override;

  std::byte* allocate(std::size_t bytes) override;
  void release(std::byte* data, std::size_t bytes) override;
  void copy(std::span<const Copy> copies) override;
  void synchronize() override { context_->synchronize(); }
  bool is_host() const override { return false; }

  /// Bytes allocated from CUDA.
  std::size_t bytes() const;

 private:
  std::byte* allocate_managed(std::size_t bytes);
  bool owns(const std::byte* data) const;

  std::shared_ptr<Context> context_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, std::size_t> blocks_;       // allocated from CUDA, with their sizes
  std::map<std::size_t, std::vector<std::byte*>> free_;  // released small blocks, by size
  std::byte* slab_ = nullptr;
  std::size_t slab_left_ = 0;
};

}  // namespace turnbench::cuda
