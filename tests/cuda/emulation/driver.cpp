// The emulated driver's virtual memory management.

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "cuda.h"
#include "cuda_runtime.h"
#include "device.h"

using emulation::device, emulation::Lock, emulation::MappedMemory;

namespace {

constexpr std::size_t kHostPage = 4096;

bool is_whole(std::size_t value) {
  return value % MappedMemory::kGranularity == 0;
}

/// Whether memory with these properties can be requested.
CUresult check_properties(const CUmemAllocationProp* of) {
  if (of == nullptr || of->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      of->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (of->location.id < 0 || of->location.id >= emulation::kDevices)
    return CUDA_ERROR_INVALID_DEVICE;
  return device().mapped.is_supported ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult lost_result() {
  return emulation::lost_error() == cudaSuccess ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

/// Frees memory that is neither mapped nor has a handle.
void free_unused(unsigned long long handle) {
  const auto found = device().mapped.memories.find(handle);
  const MappedMemory::Memory& memory = found->second;
  if (memory.is_mapped || !memory.is_released) return;
  device().used[memory.device] -= memory.bytes;
  device().mapped.memories.erase(found);
}

/// Adds accessible memory to the allocations, merged with adjacent memory of its range.
void add_allocation(std::uintptr_t address, std::size_t bytes, int owner) {
  auto& all = device().allocations;
  const auto range_of = [](std::uintptr_t at) { return device().mapped.range_of(at); };
  const auto next = all.find(address + bytes);
  if (next != all.end() && range_of(next->first) == range_of(address)) {
    bytes += next->second.bytes;
    all.erase(next);
  }
  const auto after = all.upper_bound(address);
  if (after != all.begin()) {
    auto& [before, allocation] = *std::prev(after);
    if (range_of(before) == range_of(address) && before + allocation.bytes == address) {
      allocation.bytes += bytes;
      return;
    }
  }
  all[address] = {bytes, emulation::MemoryKind::kDevice, owner, true};
}

void remove_allocation(std::uintptr_t address, std::size_t bytes) {
  auto& all = device().allocations;
  const auto found = std::prev(all.upper_bound(address));
  const std::uintptr_t begin = found->first, end = begin + found->second.bytes;
  const int owner = found->second.device;
  all.erase(found);
  const auto keep = [&](std::uintptr_t from, std::uintptr_t to) {
    if (to > from) all[from] = {to - from, emulation::MemoryKind::kDevice, owner, true};
  };
  keep(begin, address);
  keep(address + bytes, end);
}

}  // namespace

void emulation::support_virtual_memory(bool by_devices, const char* missing_function) {
  const Lock lock(device().mutex);
  device().mapped.is_supported = by_devices;
  device().mapped.missing_function = missing_function == nullptr ? "" : missing_function;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* result) {
  struct Function {
    void* address;
    unsigned version;  // of the driver that introduced the function
  };
#define FUNCTION(name, since)               \
  {                                         \
#name, {                                \
      reinterpret_cast<void*>(&name), since \
    }                                       \
  }
  static const std::map<std::string_view, Function> kAll = {
      FUNCTION(cuDeviceGet, 2000),
      FUNCTION(cuDeviceGetAttribute, 2000),
      FUNCTION(cuMemGetAllocationGranularity, 10020),
      FUNCTION(cuMemAddressReserve, 10020),
      FUNCTION(cuMemAddressFree, 10020),
      FUNCTION(cuMemCreate, 10020),
      FUNCTION(cuMemRelease, 10020),
      FUNCTION(cuMemMap, 10020),
      FUNCTION(cuMemSetAccess, 10020),
      FUNCTION(cuMemUnmap, 10020),
  };
#undef FUNCTION
  const Lock lock(device().mutex);
  *function = nullptr;
  if (flags != cudaEnableDefault || version > static_cast<unsigned>(device().driver_version))
    return cudaErrorInvalidValue;
  const auto found = kAll.find(symbol);
  auto status = cudaDriverEntryPointSuccess;
  if (found == kAll.end() || symbol == device().mapped.missing_function) {
    status = cudaDriverEntryPointSymbolNotFound;
  } else if (version < found->second.version) {
    status = cudaDriverEntryPointVersionNotSufficent;
  } else {
    *function = found->second.address;
  }
  if (result != nullptr) *result = status;
  return cudaSuccess;
}

CUresult cuDeviceGet(CUdevice* number, int ordinal) {
  if (ordinal < 0 || ordinal >= emulation::kDevices) return CUDA_ERROR_INVALID_DEVICE;
  *number = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice number) {
  const Lock lock(device().mutex);
  if (number < 0 || number >= emulation::kDevices) return CUDA_ERROR_INVALID_DEVICE;
  if (attribute != CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)
    return CUDA_ERROR_INVALID_VALUE;
  *value = device().mapped.is_supported ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(std::size_t* granularity, const CUmemAllocationProp* of,
                                       CUmemAllocationGranularity_flags) {
  const Lock lock(device().mutex);
  if (const CUresult result = check_properties(of); result != CUDA_SUCCESS) return result;
  *granularity = MappedMemory::kGranularity;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t bytes, std::size_t alignment,
                             CUdeviceptr, unsigned long long flags) {
  const Lock lock(device().mutex);
  if (const CUresult result = lost_result(); result != CUDA_SUCCESS) return result;
  if (bytes == 0 || bytes % kHostPage != 0 || (alignment & (alignment - 1)) != 0 ||
      alignment > MappedMemory::kGranularity || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *address = device().mapped.reserve(bytes);
  return *address == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, std::size_t bytes) {
  const Lock lock(device().mutex);
  return device().mapped.free(address, bytes) ? lost_result() : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                     const CUmemAllocationProp* of, unsigned long long flags) {
  const Lock lock(device().mutex);
  if (const CUresult result = lost_result(); result != CUDA_SUCCESS) return result;
  if (const CUresult result = check_properties(of); result != CUDA_SUCCESS) return result;
  if (bytes == 0 || !is_whole(bytes) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const int owner = of->location.id;
  if (emulation::allocation_fails() || bytes + device().used[owner] > device().memory_bytes)
    return CUDA_ERROR_OUT_OF_MEMORY;
  device().used[owner] += bytes;
  *handle = ++device().mapped.last_handle;
  device().mapped.memories[*handle] = {bytes, owner};
  ++device().counters[owner].allocations;
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const Lock lock(device().mutex);
  const auto found = device().mapped.memories.find(handle);
  if (found == device().mapped.memories.end() || found->second.is_released)
    return CUDA_ERROR_INVALID_VALUE;
  found->second.is_released = true;
  free_unused(handle);
  return lost_result();
}

CUresult cuMemMap(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  const Lock lock(device().mutex);
  if (const CUresult result = lost_result(); result != CUDA_SUCCESS) return result;
  MappedMemory& mapped = device().mapped;
  const auto found = mapped.memories.find(handle);
  if (found == mapped.memories.end() || found->second.is_released || found->second.is_mapped ||
      found->second.bytes != bytes || offset != 0 || flags != 0 || !is_whole(address) ||
      !mapped.is_unmapped(address, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  found->second.is_mapped = true;
  mapped.mappings[address] = {bytes, handle};
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access,
                        std::size_t count) {
  const Lock lock(device().mutex);
  if (const CUresult result = lost_result(); result != CUDA_SUCCESS) return result;
  MappedMemory& mapped = device().mapped;
  const auto first = mapped.mappings.find(address);
  auto last = first;
  CUdeviceptr end = address;
  for (; last != mapped.mappings.end() && last->first == end && end < address + bytes; ++last)
    end += last->second.bytes;
  if (first == last || end != address + bytes || count != 1 ||
      access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
      access->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (auto it = first; it != last; ++it) {
    if (mapped.memories.at(it->second.handle).device != access->location.id)
      return CUDA_ERROR_INVALID_DEVICE;
  }
  for (auto it = first; it != last; ++it) {
    if (it->second.is_accessible) continue;
    mapped.make_accessible(it->first, it->second);
    add_allocation(it->first, it->second.bytes, access->location.id);
  }
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, std::size_t bytes) {
  const Lock lock(device().mutex);
  MappedMemory& mapped = device().mapped;
  const auto found = mapped.mappings.find(address);
  if (found == mapped.mappings.end() || found->second.bytes != bytes)
    return CUDA_ERROR_INVALID_VALUE;
  const MappedMemory::Mapping mapping = found->second;
  if (mapping.is_accessible) {
    mapped.make_inaccessible(address, mapping);
    remove_allocation(address, bytes);
  }
  mapped.mappings.erase(found);
  mapped.memories.at(mapping.handle).is_mapped = false;
  free_unused(mapping.handle);
  return lost_result();
}
