#pragma once

#include <cuda.h>

#include <cstddef>
#include <vector>

namespace turnbench::cuda {

/// CUDA's virtual memory management on one device.  It is part of the driver, whose functions are
/// looked up at run time: the program does not link a driver library, and starts without a driver.
class VirtualMemory {
 public:
  /// @throws Error (runtime) if the device or its driver has no virtual memory management.
  explicit VirtualMemory(int device);

  int device() const { return device_; }
  /// Granularity of mapped memory, in bytes.
  std::size_t granularity() const { return granularity_; }
  /// `bytes`, rounded up to a multiple of the granularity.
  std::size_t whole(std::size_t bytes) const {
    return (bytes + granularity_ - 1) / granularity_ * granularity_;
  }

  CUdeviceptr reserve(std::size_t bytes) const;
  /// Maps memory to reserved addresses and makes it accessible to the device.  Returns false if it
  /// does not fit.
  bool map(CUdeviceptr address, std::size_t bytes) const;
  /// Unmaps the memory of one call of `map`, and frees it.
  CUresult unmap(CUdeviceptr address, std::size_t bytes) const;
  CUresult free(CUdeviceptr address, std::size_t bytes) const;

 private:
  bool is_supported();
  CUmemAllocationProp properties() const;

  int device_;
  std::size_t granularity_ = 0;
  decltype(&cuDeviceGet) get_device_ = nullptr;
  decltype(&cuDeviceGetAttribute) get_attribute_ = nullptr;
  decltype(&cuMemGetAllocationGranularity) get_granularity_ = nullptr;
  decltype(&cuMemAddressReserve) reserve_ = nullptr;
  decltype(&cuMemAddressFree) free_ = nullptr;
  decltype(&cuMemCreate) create_ = nullptr;
  decltype(&cuMemRelease) release_ = nullptr;
  decltype(&cuMemMap) map_ = nullptr;
  decltype(&cuMemSetAccess) set_access_ = nullptr;
  decltype(&cuMemUnmap) unmap_ = nullptr;
};

/// A range of device addresses; memory is mapped piece by piece from its begin.
class MappedRange {
 public:
  /// Reserves addresses for `bytes` bytes.  memory: must outlive the range.
  MappedRange(const VirtualMemory& memory, std::size_t bytes);
  /// Unmaps everything.  No operation may use it any more.
  ~MappedRange();
  MappedRange(MappedRange&& other) noexcept;
  MappedRange& operator=(MappedRange&&) = delete;

  std::byte* data() const { return reinterpret_cast<std::byte*>(address_); }
  std::size_t mapped() const { return mapped_; }  ///< bytes

  /// Maps `bytes` bytes, a multiple of the granularity, after the mapped ones.  Returns false if
  /// they do not fit into the range, or into the device's memory with its reserve (see
  /// allocate_device).
  bool extend(std::size_t bytes);
  /// True if a piece begins at byte `bytes` or later.
  bool has_beyond(std::size_t bytes) const;
  /// Unmaps the pieces that begin at byte `bytes` or later.  No operation may use them any more.
  void shrink(std::size_t bytes);

 private:
  const VirtualMemory& memory_;
  CUdeviceptr address_;
  std::size_t reserved_, mapped_ = 0;
  std::vector<std::size_t> pieces_;  // sizes of the mapped pieces
};

}  // namespace turnbench::cuda
