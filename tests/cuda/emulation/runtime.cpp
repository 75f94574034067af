#include "cuda_runtime.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "device.h"

namespace emulation {
namespace {

constexpr std::size_t kShared = 48 << 10, kSharedOptIn = 227 << 10;

thread_local int chosen = 0;

bool is_device(int number) {
  return number >= 0 && number < kDevices;
}

}  // namespace

int current_device() {
  return chosen;
}

Device& device() {
  static Device one;
  return one;
}

cudaError_t allow_shared(const void* kernel, cudaFuncAttribute attribute, int value) {
  const Lock lock(device().mutex);
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || static_cast<std::size_t>(value) > kSharedOptIn) return cudaErrorInvalidValue;
  device().allowed_shared[{chosen, kernel}] = static_cast<std::size_t>(value);
  return cudaSuccess;
}

cudaError_t check_launch(const cudaLaunchConfig_t& config, const void* kernel) {
  const Lock lock(device().mutex);
  const dim3 g = config.gridDim, b = config.blockDim;
  if (const auto error = lost_error(); error != cudaSuccess) return error;
  const auto within = [](unsigned n, unsigned most) { return n >= 1 && n <= most; };
  const auto allowed = device().allowed_shared.find({chosen, kernel});
  if (!within(g.x, 0x7FFFFFFF) || !within(g.y, 65535) || !within(g.z, 65535) ||
      !within(b.x, 1024) || !within(b.y, 1024) || !within(b.z, 64) || b.x * b.y * b.z > 1024) {
    device().last_error = cudaErrorInvalidConfiguration;
  } else if (config.dynamicSmemBytes > (allowed == device().allowed_shared.end()
                                            ? kShared
                                            : std::max(kShared, allowed->second))) {
    device().last_error = cudaErrorInvalidValue;
  } else if (config.stream != nullptr && config.stream->device != chosen) {
    device().last_error = cudaErrorInvalidResourceHandle;
  } else {
    return cudaSuccess;
  }
  return device().last_error;
}

void fail_device_count(cudaError_t error, int driver_version) {
  const Lock lock(device().mutex);
  device().count_error = error;
  device().driver_version = driver_version;
}

}  // namespace emulation

using emulation::device, emulation::Lock, emulation::kShared, emulation::kSharedOptIn;

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInitializationError:
      return "initialization error";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorIllegalState:
      return "the operation cannot be performed in the present state";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorNotSupported:
      return "operation not supported";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureIsolation:
      return "dependency created on uncaptured work in another stream";
    case cudaErrorStreamCaptureWrongThread:
      return "attempt to terminate a thread-local capture sequence from another thread";
  }
  return "unrecognized error code";
}

const char* cudaGetErrorName(cudaError_t error) {
  return cudaGetErrorString(error);
}

cudaError_t cudaPeekAtLastError() {
  const Lock lock(device().mutex);
  const cudaError_t lost = emulation::lost_error();
  return lost != cudaSuccess ? lost : device().last_error;
}

cudaError_t cudaGetLastError() {
  const Lock lock(device().mutex);
  const cudaError_t lost = emulation::lost_error();
  return lost != cudaSuccess ? lost : std::exchange(device().last_error, cudaSuccess);
}

cudaError_t cudaGetDeviceCount(int* count) {
  const Lock lock(device().mutex);
  if (device().count_error == cudaSuccess) {
    *count = emulation::kDevices;
  } else {
    device().last_error = device().count_error;
  }
  return device().count_error;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int number) {
  if (!emulation::is_device(number)) return cudaErrorInvalidDevice;
  *properties = {};
  std::strcpy(properties->name, "emulated");
  properties->totalGlobalMem = emulation::kMemoryBytes;
  properties->sharedMemPerBlock = kShared;
  properties->sharedMemPerBlockOptin = kSharedOptIn;
  properties->sharedMemPerMultiprocessor = kSharedOptIn + 1024;
  properties->major = 9;
  properties->multiProcessorCount = 4;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->warpSize = warpSize;
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
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlockOptin);
      return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

cudaError_t cudaSetDevice(int number) {
  if (!emulation::is_device(number)) return cudaErrorInvalidDevice;
  emulation::chosen = number;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* number) {
  *number = emulation::chosen;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  const Lock lock(device().mutex);
  *version = device().driver_version;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
