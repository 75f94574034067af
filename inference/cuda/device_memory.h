#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "inference/cuda/context.h"
#include "inference/memory.h"

namespace turnbench::cuda {

/// A device's memory that the host can reach too (managed memory that prefers to be on the device).
/// Small blocks are cut from slabs and kept for others of their size; nothing goes back to the
/// device before the end, so that nothing is allocated in steady state.
class DeviceMemory : public Memory {
 public:
  explicit DeviceMemory(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  ~DeviceMemory() override;

  std::byte* allocate(std::size_t bytes) override;
  void release(std::byte* data, std::size_t bytes) override;
  void copy(std::span<const Copy> copies) override;
  void synchronize() override { context_->synchronize(); }
  bool is_host() const override { return false; }

  /// Bytes taken from the device.
  std::size_t bytes() const;

 private:
  std::byte* take_from_device(std::size_t bytes);
  bool owns(const std::byte* data) const;

  std::shared_ptr<Context> context_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, std::size_t> blocks_;       // taken from the device
  std::map<std::size_t, std::vector<std::byte*>> free_;  // by size
  std::byte* slab_ = nullptr;
  std::size_t slab_left_ = 0;
};

}  // namespace turnbench::cuda
