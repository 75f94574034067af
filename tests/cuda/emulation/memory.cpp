#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>

#include "cuda_runtime.h"
#include "device.h"

using emulation::allocation_of, emulation::Allocation, emulation::device, emulation::Lock,
    emulation::stream_of;
using Kind = emulation::MemoryKind;

namespace {

constexpr std::size_t kAlignment = 256;

std::uintptr_t address(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

/// Whether one side of a copy is in memory of the kind `on_device` and inside its allocation.
bool is_valid(const void* data, std::size_t bytes, cudaMemcpyKind kind, bool on_device) {
  std::uintptr_t begin = 0;
  const Allocation* found = allocation_of(data, &begin);
  if (found != nullptr && address(data) - begin + bytes > found->bytes) return false;
  if (found == nullptr && device().mapped.is_reserved(data)) return false;
  if (kind == cudaMemcpyDefault) return true;
  if (on_device) return found != nullptr;
  return found == nullptr || found->kind != Kind::kDevice;
}

bool to_device(cudaMemcpyKind kind) {
  return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
}
bool from_device(cudaMemcpyKind kind) {
  return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
}

cudaError_t allocate(void** data, std::size_t bytes, Kind kind) {
  const Lock lock(device().mutex);
  *data = nullptr;
  if (const auto error = emulation::refuse_in_captures(); error != cudaSuccess) return error;
  if (const auto error = emulation::lost_error(); error != cudaSuccess) return error;
  if (bytes == 0) return cudaSuccess;
  const int owner = emulation::current_device();
  if (kind == Kind::kDevice) {
    if (emulation::allocation_fails()) return cudaErrorMemoryAllocation;
    if (bytes + device().used[owner] > device().memory_bytes) return cudaErrorMemoryAllocation;
    *data = device().range.allocate(bytes);
    if (*data == nullptr) return cudaErrorMemoryAllocation;
    device().used[owner] += bytes;
  } else {
    *data = operator new (bytes, std::align_val_t{kAlignment});
    std::memset(*data, 0xFF, bytes);
  }
  device().allocations[address(*data)] = {bytes, kind, owner};
  ++emulation::counted().allocations;
  return cudaSuccess;
}

cudaError_t release(void* data, bool pinned) {
  if (data == nullptr) return cudaSuccess;
  const Lock lock(device().mutex);
  if (const auto error = emulation::refuse_in_captures(); error != cudaSuccess) return error;
  emulation::drain_all();
  const auto it = device().allocations.find(address(data));
  if (it == device().allocations.end() || it->second.is_mapped ||
      (it->second.kind == Kind::kPinned) != pinned) {
    return cudaErrorInvalidValue;
  }
  if (pinned) {
    operator delete (data, std::align_val_t{kAlignment});
  } else {
    ++emulation::counted().waits;
    device().used[it->second.device] -= it->second.bytes;
    device().range.release(data, it->second.bytes);
  }
  device().allocations.erase(it);
  return emulation::lost_error();
}

/// Counts a copy that a stream runs.  For a copy to pageable memory, the call returns after the
/// copy.
void count_copy(cudaStream_t stream, const void* to, const void* from, std::size_t bytes) {
  emulation::Counters* c = emulation::counted(stream);
  if (c == nullptr) return;
  const auto on_device = [](const Allocation* a) {
    return a != nullptr && a->kind == Kind::kDevice;
  };
  const Allocation *target = allocation_of(to), *source = allocation_of(from);
  emulation::CopyCounter* counter = &c->within;
  if (!on_device(source)) {
    counter = source != nullptr ? &c->up_pinned : &c->up_pageable;
  } else if (!on_device(target)) {
    counter = target != nullptr ? &c->down_pinned : &c->down_pageable;
    if (target == nullptr) ++c->waits;
  }
  ++counter->count;
  counter->bytes += bytes;
}

}  // namespace

const Allocation* emulation::allocation_of(const void* data, std::uintptr_t* begin) {
  const auto& all = device().allocations;
  auto it = all.upper_bound(address(data));
  if (it == all.begin()) return nullptr;
  --it;
  if (address(data) - it->first >= it->second.bytes) return nullptr;
  if (begin != nullptr) *begin = it->first;
  return &it->second;
}

void emulation::limit_memory(std::size_t bytes) {
  const Lock lock(device().mutex);
  device().memory_bytes = bytes == 0 ? kMemoryBytes : bytes;
}

void emulation::copy_16(void* to, const void* from) {
  if (from == nullptr) {
    std::memset(to, 0, 16);
  } else {
    std::memcpy(to, from, 16);
  }
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const Lock lock(device().mutex);
  if (const auto error = emulation::lost_error(); error != cudaSuccess) return error;
  *total = device().memory_bytes;
  *free = *total - std::min(*total, device().used[emulation::current_device()]);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  const Lock lock(device().mutex);
  const Allocation* found = allocation_of(data);
  if (found == nullptr) {
    *attributes = {cudaMemoryTypeUnregistered, -1};
    return cudaSuccess;
  }
  *attributes = {found->kind == Kind::kDevice ? cudaMemoryTypeDevice : cudaMemoryTypeHost,
                 found->device};
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  return allocate(data, bytes, Kind::kDevice);
}

cudaError_t cudaMallocHost(void** data, std::size_t bytes, unsigned) {
  return allocate(data, bytes, Kind::kPinned);
}

cudaError_t cudaFree(void* data) {
  return release(data, false);
}

cudaError_t cudaFreeHost(void* data) {
  return release(data, true);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, bytes == 0 ? 0 : 1, kind, stream);
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (const auto error = emulation::refuse_in_captures(); error != cudaSuccess) return error;
  emulation::drain_all();
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind);
  return error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error;
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  const Lock lock(device().mutex);
  if (const auto error = emulation::lost_error(); error != cudaSuccess) return error;
  if (width == 0 || height == 0) return cudaSuccess;
  if (width > to_pitch || width > from_pitch ||
      !is_valid(to, (height - 1) * to_pitch + width, kind, to_device(kind)) ||
      !is_valid(from, (height - 1) * from_pitch + width, kind, from_device(kind))) {
    return cudaErrorInvalidValue;
  }
  if (stream_of(stream).capture &&
      (allocation_of(to) == nullptr || allocation_of(from) == nullptr)) {
    return emulation::refuse_in_capture(stream);  // pageable memory
  }
  count_copy(stream, to, from, width * height);
  // Host memory is also read when the copy runs: programs must not rely on a driver that reads
  // pageable memory before the call returns.
  return emulation::enqueue(stream, [=] {
    if (emulation::is_lost(stream_of(stream).device)) return;
    for (std::size_t i = 0; i < height; ++i) {
      std::memcpy(static_cast<std::byte*>(to) + i * to_pitch,
                  static_cast<const std::byte*>(from) + i * from_pitch, width);
    }
  });
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  if (const auto error = emulation::refuse_in_captures(); error != cudaSuccess) return error;
  emulation::drain_all();
  const cudaError_t error = cudaMemsetAsync(to, value, bytes);
  return error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error;
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  const Lock lock(device().mutex);
  if (const auto error = emulation::lost_error(); error != cudaSuccess) return error;
  if (bytes == 0) return cudaSuccess;
  if (!is_valid(to, bytes, cudaMemcpyDeviceToDevice, true)) return cudaErrorInvalidValue;
  if (emulation::Counters* c = emulation::counted(stream)) ++c->fills;
  return emulation::enqueue(stream, [=] {
    if (!emulation::is_lost(stream_of(stream).device)) std::memset(to, value, bytes);
  });
}
