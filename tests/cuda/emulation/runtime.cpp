#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <vector>

#include "cuda_runtime.h"

struct CUevent_st {
  std::chrono::steady_clock::time_point time;
  cudaStream_t stream = nullptr;  ///< that it was last recorded in
  bool done = true;
};

struct CUstream_st {
  std::deque<std::function<void()>> tasks;
};

namespace {

constexpr std::size_t kMemory = std::size_t{16} << 30, kAlignment = 256;
constexpr std::size_t kShared = 48 << 10, kSharedOptIn = 227 << 10;

enum class Kind { kDevice, kManaged, kPinned };
struct Allocation {
  std::size_t bytes;
  Kind kind;
};

struct Device {
  std::recursive_mutex mutex;
  std::map<std::uintptr_t, Allocation> allocations;
  std::size_t used = 0;
  std::map<const void*, std::size_t> allowed_shared;
  CUstream_st default_stream;
  std::set<cudaStream_t> streams;
  cudaError_t last_error = cudaSuccess;
};

Device& device() {
  static Device one;
  return one;
}

using Lock = std::lock_guard<std::recursive_mutex>;

std::uintptr_t address(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

/// The allocation that `data` points into, or null: then it is pageable memory of the host.
const Allocation* find(const void* data, std::uintptr_t* begin = nullptr) {
  const auto& all = device().allocations;
  auto it = all.upper_bound(address(data));
  if (it == all.begin()) return nullptr;
  --it;
  if (address(data) - it->first >= it->second.bytes) return nullptr;
  if (begin != nullptr) *begin = it->first;
  return &it->second;
}

/// Whether a copy's end may be as `on_device` says, and is inside its allocation.
bool is_valid(const void* data, std::size_t bytes, cudaMemcpyKind kind, bool on_device) {
  std::uintptr_t begin = 0;
  const Allocation* found = find(data, &begin);
  if (found != nullptr && address(data) - begin + bytes > found->bytes) return false;
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

void drain(CUstream_st& stream) {
  while (!stream.tasks.empty()) {
    const auto task = std::move(stream.tasks.front());
    stream.tasks.pop_front();
    task();
  }
}

CUstream_st& stream_of(cudaStream_t stream) {
  return stream == nullptr ? device().default_stream : *stream;
}

void finish(CUevent_st& event) {
  CUstream_st& stream = stream_of(event.stream);
  while (!event.done && !stream.tasks.empty()) {
    const auto task = std::move(stream.tasks.front());
    stream.tasks.pop_front();
    task();
  }
}

cudaError_t allocate(void** data, std::size_t bytes, Kind kind) {
  const Lock lock(device().mutex);
  *data = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (kind != Kind::kPinned) {
    if (bytes > kMemory - device().used) return cudaErrorMemoryAllocation;
    device().used += bytes;
  }
  *data = operator new (bytes, std::align_val_t{kAlignment});
  std::memset(*data, 0xFF, bytes);
  device().allocations[address(*data)] = {bytes, kind};
  return cudaSuccess;
}

cudaError_t release(void* data, bool pinned) {
  if (data == nullptr) return cudaSuccess;
  cudaDeviceSynchronize();
  const Lock lock(device().mutex);
  const auto it = device().allocations.find(address(data));
  if (it == device().allocations.end() || (it->second.kind == Kind::kPinned) != pinned) {
    return cudaErrorInvalidValue;
  }
  if (!pinned) device().used -= it->second.bytes;
  device().allocations.erase(it);
  operator delete (data, std::align_val_t{kAlignment});
  return cudaSuccess;
}

}  // namespace

namespace emulation {

void enqueue(cudaStream_t stream, std::function<void()> task) {
  const Lock lock(device().mutex);
  stream_of(stream).tasks.push_back(std::move(task));
}

cudaError_t allow_shared(const void* kernel, cudaFuncAttribute attribute, int value) {
  const Lock lock(device().mutex);
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || static_cast<std::size_t>(value) > kSharedOptIn) return cudaErrorInvalidValue;
  device().allowed_shared[kernel] = static_cast<std::size_t>(value);
  return cudaSuccess;
}

cudaError_t check_launch(const cudaLaunchConfig_t& config, const void* kernel) {
  const Lock lock(device().mutex);
  const dim3 g = config.gridDim, b = config.blockDim;
  const auto within = [](unsigned n, unsigned most) { return n >= 1 && n <= most; };
  const auto allowed = device().allowed_shared.find(kernel);
  if (!within(g.x, 0x7FFFFFFF) || !within(g.y, 65535) || !within(g.z, 65535) ||
      !within(b.x, 1024) || !within(b.y, 1024) || !within(b.z, 64) || b.x * b.y * b.z > 1024) {
    device().last_error = cudaErrorInvalidConfiguration;
  } else if (config.dynamicSmemBytes > (allowed == device().allowed_shared.end()
                                            ? kShared
                                            : std::max(kShared, allowed->second))) {
    device().last_error = cudaErrorInvalidValue;
  } else {
    return cudaSuccess;
  }
  return device().last_error;
}

}  // namespace emulation

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
  }
  return "unrecognized error code";
}

const char* cudaGetErrorName(cudaError_t error) {
  return cudaGetErrorString(error);
}

cudaError_t cudaPeekAtLastError() {
  const Lock lock(device().mutex);
  return device().last_error;
}

cudaError_t cudaGetLastError() {
  const Lock lock(device().mutex);
  return std::exchange(device().last_error, cudaSuccess);
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int number) {
  if (number != 0) return cudaErrorInvalidDevice;
  *properties = {};
  std::strcpy(properties->name, "emulated");
  properties->totalGlobalMem = kMemory;
  properties->sharedMemPerBlock = kShared;
  properties->sharedMemPerBlockOptin = kSharedOptIn;
  properties->sharedMemPerMultiprocessor = kSharedOptIn + 1024;
  properties->major = 9;
  properties->multiProcessorCount = 4;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->warpSize = warpSize;
  properties->managedMemory = properties->concurrentManagedAccess = 1;
  properties->unifiedAddressing = 1;
  properties->l2CacheSize = 50 << 20;
  properties->memoryBusWidth = 6144;
  properties->regsPerMultiprocessor = 65536;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int number) {
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, number); error != cudaSuccess)
    return error;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      return cudaSuccess;
    case cudaDevAttrConcurrentManagedAccess:
      *value = properties.concurrentManagedAccess;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlockOptin);
      return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

cudaError_t cudaSetDevice(int number) {
  return number == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDevice(int* number) {
  *number = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  const Lock lock(device().mutex);
  drain(device().default_stream);
  for (cudaStream_t stream : device().streams) drain(*stream);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const Lock lock(device().mutex);
  *total = kMemory;
  *free = kMemory - device().used;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const Lock lock(device().mutex);
  *stream = new CUstream_st;
  device().streams.insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Lock lock(device().mutex);
  if (device().streams.erase(stream) == 0) return cudaErrorInvalidResourceHandle;
  drain(*stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Lock lock(device().mutex);
  drain(stream_of(stream));
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Lock lock(device().mutex);
  return stream_of(stream).tasks.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Lock lock(device().mutex);
  if (event->done) return cudaSuccess;
  // What is recorded later in the same event is not waited for: the stream of now is drained up to
  // it, which was recorded before.
  emulation::enqueue(stream, [event] { finish(*event); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  cudaEventSynchronize(event);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Lock lock(device().mutex);
  finish(*event);
  event->stream = stream;
  event->done = false;
  emulation::enqueue(stream, [event] {
    event->time = std::chrono::steady_clock::now();
    event->done = true;
  });
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Lock lock(device().mutex);
  finish(*event);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Lock lock(device().mutex);
  return event->done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const Lock lock(device().mutex);
  if (!from->done || !to->done) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(to->time - from->time).count();
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  return allocate(data, bytes, Kind::kDevice);
}

cudaError_t cudaMallocManaged(void** data, std::size_t bytes, unsigned) {
  return bytes == 0 ? cudaErrorInvalidValue : allocate(data, bytes, Kind::kManaged);
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
  cudaDeviceSynchronize();
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind);
  cudaStreamSynchronize(nullptr);
  return error;
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  const Lock lock(device().mutex);
  if (width == 0 || height == 0) return cudaSuccess;
  if (width > to_pitch || width > from_pitch ||
      !is_valid(to, (height - 1) * to_pitch + width, kind, to_device(kind)) ||
      !is_valid(from, (height - 1) * from_pitch + width, kind, from_device(kind))) {
    return cudaErrorInvalidValue;
  }
  const auto copy = [=](const void* source, std::size_t pitch) {
    for (std::size_t i = 0; i < height; ++i) {
      std::memcpy(static_cast<std::byte*>(to) + i * to_pitch,
                  static_cast<const std::byte*>(source) + i * pitch, width);
    }
  };
  if (find(from) == nullptr) {  // pageable memory is read before the call returns
    auto staged = std::make_shared<std::vector<std::byte>>(width * height);
    for (std::size_t i = 0; i < height; ++i) {
      std::memcpy(staged->data() + i * width, static_cast<const std::byte*>(from) + i * from_pitch,
                  width);
    }
    emulation::enqueue(stream, [=] { copy(staged->data(), width); });
  } else {
    emulation::enqueue(stream, [=] { copy(from, from_pitch); });
  }
  return cudaSuccess;
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  cudaDeviceSynchronize();
  const cudaError_t error = cudaMemsetAsync(to, value, bytes);
  cudaStreamSynchronize(nullptr);
  return error;
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  const Lock lock(device().mutex);
  if (bytes == 0) return cudaSuccess;
  if (!is_valid(to, bytes, cudaMemcpyDeviceToDevice, true)) return cudaErrorInvalidValue;
  emulation::enqueue(stream, [=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemAdvise(const void* data, std::size_t bytes, cudaMemoryAdvise, cudaMemLocation) {
  const Lock lock(device().mutex);
  const Allocation* found = find(data);
  return found != nullptr && found->kind == Kind::kManaged &&
                 is_valid(data, bytes, cudaMemcpyDefault, true)
             ? cudaSuccess
             : cudaErrorInvalidValue;
}

cudaError_t cudaMemPrefetchAsync(const void* data, std::size_t bytes, cudaMemLocation location,
                                 unsigned, cudaStream_t) {
  return cudaMemAdvise(data, bytes, cudaMemAdviseSetPreferredLocation, location);
}
