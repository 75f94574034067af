#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "common/error.h"
#include "inference/cuda/host_transfers.h"
#include "inference/cuda/set_view.h"

namespace turnbench::cuda {

/// Throws a runtime error (of memory, where there is none left) that says what failed.
void check(cudaError_t status, const char* what);

/// Bytes of one kind of memory that an operation's parts are cut from; grows to what the largest
/// operation so far has needed, so that nothing is allocated in steady state.
class Arena {
 public:
  static constexpr std::size_t kSmallestPiece = std::size_t{4} << 20;

  enum class Kind { kDevice, kPinned };
  explicit Arena(Kind kind) : kind_(kind) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// `bytes` bytes at a 256-byte boundary, valid until `clear`.
  std::byte* allocate(std::size_t bytes);
  /// Whether `bytes` more fit without an allocation.
  bool has_room(std::size_t bytes) const;
  /// Everything taken is free again.  What the stream still reads must have been waited for.
  void clear();
  bool in_one_piece() const { return pieces_.size() <= 1; }
  std::size_t bytes() const;
  /// Changes when bytes that were taken go back to the device.
  int generation() const { return generation_; }

 private:
  struct Piece {
    std::byte* data;
    std::size_t size, used;
  };
  Kind kind_;
  int generation_ = 0;
  std::vector<Piece> pieces_;
};

/// One device, one stream, and the scratch of the operations that run on it, one after the other.
/// An operation calls `begin`, then uploads, takes scratch and launches.
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

  /// Starts an operation: the uploads and the scratch of the one before are forgotten (the stream's
  /// order keeps them for what was launched).
  void begin();
  /// Device memory for `count` elements, contents undefined, until the next `begin`.
  template <typename T>
  T* scratch(std::size_t count) {
    return reinterpret_cast<T*>(scratch_.allocate(count * sizeof(T)));
  }
  /// A copy of host values in device memory, until the next `begin`.
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
  /// The same of several pieces, one right after the other, in one copy.
  const std::byte* upload_pieces(std::span<const std::span<const std::byte>> pieces);
  /// A set's description, its table of pages uploaded.
  SetView view(const KvHeadCache& set);

  /// kernel<<<grid, block, shared bytes>>>(args...)
  template <typename... Parameters, typename... Args>
  void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared,
              Args&&... args) {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
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

  /// Asks that managed memory stays on the device when the host has touched it.
  void prefer_device(void* data, std::size_t bytes);
  /// Copies from the host to device memory, in the stream's order; `from` may change at once.
  void copy_from_host(void* to, std::span<const std::byte> from);
  /// Whether it is in another device's memory.
  bool is_on_another_device(const void* data) const;
  /// Copies between any two of host and device memory, in the stream's order: what there is of it
  /// on the host must stay until `synchronize` has returned.
  void copy(void* to, const void* from, std::size_t bytes);
  void zero(void* to, std::size_t bytes);
  /// Copies beside the stream, in no order with it but the one that is asked of them.
  HostTransfers& transfers() {
    refuse_uncapturable("transferring");
    return transfers_;
  }
  /// Waits for everything asked so far, transfers included.
  void synchronize();

  /// Whether what is asked from here on will be done again without being asked.  Then nothing may
  /// be uploaded or copied: the host's values will have changed.
  void set_only_capturable(bool only) { only_capturable_ = only; }
  /// Changes when scratch that was taken goes back to the device.
  int scratch_generation() const { return scratch_.generation(); }

  /// Scratch, staging and the buffers of transfers held now.
  std::size_t bytes() const {
    return scratch_.bytes() + uploads_.bytes() + staging_.bytes() + transfers_.bytes();
  }

 private:
  /// Pinned memory that the stream reads once.
  std::byte* stage(std::size_t bytes);

  static constexpr std::size_t kDefaultShared = 48 << 10;

  void refuse_uncapturable(const char* what) const;

  int device_;
  bool only_capturable_ = false;
  cudaStream_t stream_ = nullptr;
  cudaDeviceProp properties_ = {};
  Arena scratch_{Arena::Kind::kDevice}, uploads_{Arena::Kind::kDevice},
      staging_{Arena::Kind::kPinned};
  HostTransfers transfers_;
};

}  // namespace turnbench::cuda
