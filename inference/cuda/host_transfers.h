#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <functional>
#include <mutex>
#include <span>

#include "inference/cuda/event.h"

namespace turnbench::cuda {

/// Copies between host and device memory that overlap with computation: in a separate stream,
/// through a ring of pinned buffers.  The host fills or empties one buffer while earlier buffers
/// are copied.
///
/// Transfers run in the order of the calls.  They are not ordered with other streams, except by
/// `order_after` and `order_before`: a stream that uses the device memory of a transfer calls
/// `order_after` before it and `order_before` after it.  Several threads may call at once.
class HostTransfers {
 public:
  static constexpr std::size_t kBuffers = 4, kBufferBytes = std::size_t{8} << 20;

  /// Writes bytes [at, at + piece.size()) of the data to copy.
  using Fill = std::function<void(std::size_t at, std::span<std::byte> piece)>;

  explicit HostTransfers(int device);
  /// Waits for the transfers.  Data on its way to the host is lost unless `synchronize` was called.
  ~HostTransfers();
  HostTransfers(const HostTransfers&) = delete;
  HostTransfers& operator=(const HostTransfers&) = delete;

  /// Copies to device memory.  The data is complete for work that a stream receives after
  /// `order_before`, and for all work after `synchronize`. from: any host memory; it may change
  /// after the call.
  void to_device(void* to, std::span<const std::byte> from);
  /// The same for `bytes` bytes that `fill` writes to the pinned buffers, piece by piece in
  /// ascending order; pieces begin at multiples of kBufferBytes.  All calls of `fill` are made
  /// before this returns. `fill` must not call transfers.
  void to_device(void* to, std::size_t bytes, const Fill& fill);
  /// Copies from device memory.  Work that a stream receives after `order_before` may overwrite the
  /// source.  The data is complete after `synchronize`; until then, `to` must stay valid and must
  /// not be accessed.
  void to_host(std::span<std::byte> to, const void* from);

  /// Makes later transfers wait for all work submitted to `stream` so far.
  void order_after(cudaStream_t stream);
  /// Makes later work of `stream` wait for all transfers so far.
  void order_before(cudaStream_t stream);
  /// Returns when all transfers so far are complete.
  void synchronize();

  /// Blocks until no transfer to `host` is pending, so that the host may read it.
  void settle(std::span<const std::byte> host);

  /// Current size of pinned memory, in bytes; 0 before the first transfer.
  std::size_t bytes() const;

 private:
  /// A buffer of the ring, and the copy that uses it.
  struct Buffer {
    std::byte* data = nullptr;
    bool in_use = false;
    Event copied;
    std::span<std::byte> to;  ///< destination on the host; empty for copies to the device
  };

  /// The next buffer of the ring, after its previous copy is complete.
  Buffer& next();
  /// Starts a copy between `buffer` and the device.
  void start(Buffer& buffer, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
  /// Waits for the copy that uses `buffer`; copies its data to the destination on the host.
  static void settle(Buffer& buffer);

  mutable std::mutex mutex_;
  int device_;
  cudaStream_t stream_ = nullptr;
  std::byte* ring_ = nullptr;
  std::array<Buffer, kBuffers> buffers_;
  std::size_t next_ = 0;  ///< index of the least recently used buffer
  Event before_, after_;
};

}  // namespace turnbench::cuda
