#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "common/error.h"
#include "inference/cuda/host_transfers.h"
#include "inference/cuda/kernel_loads.h"
#include "inference/cuda/set_view.h"

namespace turnbench::cuda {

/// Checks the status of a CUDA call. what: the operation, for the message.
/// @throws Error (memory) if device memory is exhausted, Error (device) if no later call on the
/// device can succeed, Error (runtime) for other failures.
void check(cudaError_t status, const char* what);

/// True for the address of device memory, whatever the device.
bool is_device_memory(const void* data);

/// True if `bytes` bytes of device memory are free in addition to the reserve (see
/// allocate_device).
bool has_free_memory(int device, std::size_t bytes);
/// The error (memory) for an allocation that does not fit. what: the purpose of the memory.
Error out_of_memory(int device, std::size_t bytes, const char* what);

/// Allocates device memory, except for a reserve that stays free: a program that uses all of it can
/// block the device for other programs.  what: the purpose of the memory, for the message.
/// @throws Error (memory) if it does not fit.
std::byte* allocate_device(int device, std::size_t bytes, const char* what);
/// As `allocate_device`; null if it does not fit.
std::byte* try_allocate_device(int device, std::size_t bytes);

/// Arena allocation of one kind of memory.  It grows to the size of the largest operation so far,
/// so that steady state needs no allocation from CUDA.
class Arena {
 public:
  static constexpr std::size_t kSmallestPiece = std::size_t{4} << 20;

  enum class Kind { kDevice, kPinned };
  Arena(Kind kind, int device) : kind_(kind), device_(device) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Allocates `bytes` bytes at a 256-byte boundary, valid until `clear`.
  std::byte* allocate(std::size_t bytes);
  /// True if `bytes` more bytes fit without growing.
  bool has_room(std::size_t bytes) const;
  /// Frees all allocations.  No pending work may use them.  If there are several pieces, one of
  /// their total size replaces them.
  void clear();
  /// Frees all allocations and returns the memory to CUDA.
  void release();
  bool in_one_piece() const { return pieces_.size() <= 1; }
  std::size_t bytes() const;
  /// Changes when memory is returned to CUDA, that is, when addresses become invalid.
  int generation() const { return generation_; }

 private:
  struct Piece {
    std::byte* data;
    std::size_t size, used;
  };
  Kind kind_;
  int device_;
  int generation_ = 0;
  std::vector<Piece> pieces_;
};

/// A device with one stream, and the scratch memory of its operations, which run one after the
/// other.  An operation calls `begin`, then uploads arguments, allocates scratch and launches
/// kernels.
class Context {
 public:
  explicit Context(int device);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int device() const { return device_; }
  cudaStream_t stream() const { return stream_; }
  int multiprocessors() const { return properties_.multiProcessorCount; }
  const cudaDeviceProp& properties() const { return properties_; }
  /// The kernels that this context has launched.
  KernelLoads& kernel_loads() { return kernel_loads_; }

  /// Starts an operation.  It may reuse uploads and scratch of the previous operation, because the
  /// stream executes them in order.
  void begin();
  /// Allocates device memory for `count` elements, valid until the next `begin`.
  template <typename T>
  T* scratch(std::size_t count) {
    return reinterpret_cast<T*>(scratch_.allocate(count * sizeof(T)));
  }
  /// Copies host values to device memory, valid until the next `begin`.
  template <typename T>
  const T* upload(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::span<const std::byte> piece = std::as_bytes(values);
    return reinterpret_cast<const T*>(upload_pieces({&piece, 1}));
  }
  template <typename T>
  const T* upload(const std::vector<T>& values) {
    return upload(std::span<const T>(values));
  }
  /// The same for several pieces, which are concatenated and copied together.
  const std::byte* upload_pieces(std::span<const std::span<const std::byte>> pieces);
  /// The view of a KV set for kernels; uploads its page table.
  SetView view(const KvHeadCache& set);

  /// Launches kernel<<<grid, block, shared>>>(args...).  shared: dynamic shared memory in bytes.
  template <typename... Parameters, typename... Args>
  void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared,
              Args&&... args) {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
    const auto notice = kernel_loads_.notice_for(reinterpret_cast<const void*>(kernel));
    if (shared > kDefaultShared) {
      check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shared)),
            "asking for shared memory");
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = stream_;
    check(cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...), "launching a kernel");
  }

  /// Allocates device memory.  A part of the device's memory stays free, for the driver and for
  /// other programs.
  /// @throws Error (memory), with the requested and the free size, if it does not fit.
  std::byte* allocate(std::size_t bytes, const char* what) const {
    return allocate_device(device_, bytes, what);
  }
  /// As `allocate`; null if it does not fit.
  std::byte* try_allocate(std::size_t bytes) const { return try_allocate_device(device_, bytes); }
  /// Copies from host to device memory, in the order of the stream.  `from` may change after the
  /// call.
  void copy_from_host(void* to, std::span<const std::byte> from);
  /// Copies between any host and device memory, in the order of the stream.  Host memory must stay
  /// valid and unchanged until `synchronize` has returned.
  void copy(void* to, const void* from, std::size_t bytes);
  void zero(void* to, std::size_t bytes);
  /// Copies in a separate stream; HostTransfers orders them with other streams.
  HostTransfers& transfers() {
    refuse_uncapturable("transferring");
    return transfers_;
  }
  /// Waits for all operations and transfers so far.
  void synchronize();
  /// Waits as `synchronize`, and returns scratch and staging memory to CUDA.
  void release_scratch();

  /// If true, only operations that may be captured in a graph are allowed: uploads and copies
  /// throw, because a replay would use outdated host values.
  void set_only_capturable(bool only) { only_capturable_ = only; }
  /// Changes when addresses of scratch memory become invalid.
  int scratch_generation() const { return scratch_.generation(); }

  /// Current size of scratch, staging and transfer buffers, in bytes.
  std::size_t bytes() const {
    return scratch_.bytes() + uploads_.bytes() + staging_.bytes() + transfers_.bytes();
  }

 private:
  /// Allocates pinned memory that the stream reads once.
  std::byte* stage(std::size_t bytes);

  static constexpr std::size_t kDefaultShared = 48 << 10;

  void refuse_uncapturable(const char* what) const;

  KernelLoads kernel_loads_;
  int device_;
  bool only_capturable_ = false;
  cudaStream_t stream_ = nullptr;
  cudaDeviceProp properties_ = {};
  Arena scratch_{Arena::Kind::kDevice, device_}, uploads_{Arena::Kind::kDevice, device_},
      staging_{Arena::Kind::kPinned, device_};
  HostTransfers transfers_;
};

}  // namespace turnbench::cuda
