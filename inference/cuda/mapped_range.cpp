#include "inference/cuda/mapped_range.h"

#include <cuda_runtime.h>

#include <utility>

#include "inference/cuda/context.h"

namespace turnbench::cuda {
namespace {

constexpr unsigned kVirtualMemoryVersion =
    10020;  // driver version that introduced virtual memory management

/// Looks up a function of the driver.  Returns false if it does not exist.
template <typename Function>
bool look_up(const char* name, Function& out) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = {};
#if CUDART_VERSION >= 12050
  const cudaError_t status = cudaGetDriverEntryPointByVersion(name, &found, kVirtualMemoryVersion,
                                                              cudaEnableDefault, &result);
#else
  const cudaError_t status = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  check(status, "looking up a function of the driver");
  out = reinterpret_cast<Function>(found);
  return found != nullptr;
}

/// Results of the driver have the same numbers as the runtime's errors.
void check_driver(CUresult result, const char* what) {
  check(static_cast<cudaError_t>(result), what);
}

}  // namespace

VirtualMemory::VirtualMemory(int device) : device_(device) {
  if (!is_supported()) {
    throw runtime_error(
        "cuda:{}: found no virtual memory management on the device or in its driver, expected it "
        "for keys and values",
        device);
  }
  const CUmemAllocationProp of = properties();
  check_driver(get_granularity_(&granularity_, &of, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
               "asking for the granularity of memory");
}

bool VirtualMemory::is_supported() {
  if (!look_up("cuDeviceGet", get_device_) || !look_up("cuDeviceGetAttribute", get_attribute_) ||
      !look_up("cuMemGetAllocationGranularity", get_granularity_) ||
      !look_up("cuMemAddressReserve", reserve_) || !look_up("cuMemAddressFree", free_) ||
      !look_up("cuMemCreate", create_) || !look_up("cuMemRelease", release_) ||
      !look_up("cuMemMap", map_) || !look_up("cuMemSetAccess", set_access_) ||
      !look_up("cuMemUnmap", unmap_)) {
    return false;
  }
  CUdevice device = 0;
  int value = 0;
  check_driver(get_device_(&device, device_), "choosing the device");
  check_driver(
      get_attribute_(&value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device),
      "asking for the device's attributes");
  return value != 0;
}

CUmemAllocationProp VirtualMemory::properties() const {
  CUmemAllocationProp out = {};
  out.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  out.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  out.location.id = device_;
  return out;
}

CUdeviceptr VirtualMemory::reserve(std::size_t bytes) const {
  CUdeviceptr out = 0;
  check_driver(reserve_(&out, bytes, 0, 0, 0), "reserving addresses for keys and values");
  return out;
}

bool VirtualMemory::map(CUdeviceptr address, std::size_t bytes) const {
  const CUmemAllocationProp of = properties();
  CUmemGenericAllocationHandle handle = 0;
  CUresult result = create_(&handle, bytes, &of, 0);
  if (result == CUDA_SUCCESS) {
    result = map_(address, bytes, 0, handle, 0);
    release_(handle);  // the memory is free once it is unmapped
    if (result == CUDA_SUCCESS) {
      CUmemAccessDesc access = {};
      access.location = of.location;
      access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      result = set_access_(address, bytes, &access, 1);
      if (result != CUDA_SUCCESS) unmap_(address, bytes);
    }
  }
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return false;
  check_driver(result, "mapping memory");
  return true;
}

CUresult VirtualMemory::unmap(CUdeviceptr address, std::size_t bytes) const {
  return unmap_(address, bytes);
}

CUresult VirtualMemory::free(CUdeviceptr address, std::size_t bytes) const {
  return free_(address, bytes);
}

MappedRange::MappedRange(const VirtualMemory& memory, std::size_t bytes)
    : memory_(memory),
      address_(memory.reserve(memory.whole(bytes))),
      reserved_(memory.whole(bytes)) {}

MappedRange::MappedRange(MappedRange&& other) noexcept
    : memory_(other.memory_),
      address_(std::exchange(other.address_, 0)),
      reserved_(other.reserved_),
      mapped_(std::exchange(other.mapped_, 0)),
      pieces_(std::move(other.pieces_)) {}

MappedRange::~MappedRange() {
  if (address_ == 0) return;
  for (CUdeviceptr at = address_; const std::size_t bytes : pieces_) {
    memory_.unmap(at, bytes);
    at += bytes;
  }
  memory_.free(address_, reserved_);
}

bool MappedRange::extend(std::size_t bytes) {
  if (bytes > reserved_ - mapped_ || !has_free_memory(memory_.device(), bytes) ||
      !memory_.map(address_ + mapped_, bytes)) {
    return false;
  }
  pieces_.push_back(bytes);
  mapped_ += bytes;
  return true;
}

bool MappedRange::has_beyond(std::size_t bytes) const {
  return !pieces_.empty() && mapped_ - pieces_.back() >= bytes;
}

void MappedRange::shrink(std::size_t bytes) {
  while (has_beyond(bytes)) {
    const std::size_t last = pieces_.back();
    check_driver(memory_.unmap(address_ + mapped_ - last, last), "unmapping memory");
    pieces_.pop_back();
    mapped_ -= last;
  }
}

}  // namespace turnbench::cuda
