#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <functional>
#include <mutex>
#include <span>

#include "inference/cuda/event.h"

namespace turnbench::cuda {

/// Copies between the host's memory and a device's, beside what the device computes: in a stream of
/// their own, by way of a ring of pinned buffers.  The host fills or empties one buffer while the
/// copies of those before it are under way.
///
/// Transfers run one after the other, in the order in which they were asked for.  With what other
/// streams do they are in no order but the one that `order_after` and `order_before` make: whoever
/// works on a transfer's device memory in a stream puts what was asked before it in front of it by
/// the one, and what is asked after it behind it by the other.  Several threads may ask at once.
class HostTransfers {
 public:
  static constexpr std::size_t kBuffers = 4, kBufferBytes = std::size_t{8} << 20;

  /// Writes bytes [at, at + piece.size()) of what is copied to the device.
  using Fill = std::function<void(std::size_t at, std::span<std::byte> piece)>;

  explicit HostTransfers(int device);
  /// Waits for the device.  What was on its way to the host and no `synchronize` has brought there
  /// is lost.
  ~HostTransfers();
  HostTransfers(const HostTransfers&) = delete;
  HostTransfers& operator=(const HostTransfers&) = delete;

  /// Copies to device memory, which holds the bytes for what a stream is asked behind
  /// `order_before`, and for everybody when `synchronize` has returned.  `from` is any memory that
  /// the host reads, and may change at once.
  void to_device(void* to, std::span<const std::byte> from);
  /// The same of `bytes` bytes that `fill` writes, piece by piece in ascending order, straight into
  /// the pinned buffers; a piece starts at a multiple of kBufferBytes.  It is done with `fill` when
  /// it returns; `fill` must not ask for transfers.
  void to_device(void* to, std::size_t bytes, const Fill& fill);
  /// Copies from device memory, which a stream may overwrite behind `order_before`.  `to` receives
  /// the bytes at some time until `synchronize` has returned; until then it must be there, and
  /// nobody else may touch it.
  void to_host(std::span<std::byte> to, const void* from);

  /// Transfers asked for from now on wait for everything that `stream` was asked so far.
  void order_after(cudaStream_t stream);
  /// What `stream` is asked from now on waits for all transfers so far.
  void order_before(cudaStream_t stream);
  /// Returns when all transfers so far are done.
  void synchronize();

  /// Pinned memory held now: none before the first transfer.
  std::size_t bytes() const;

 private:
  /// A part of the ring, and the copy that it is used for.
  struct Buffer {
    std::byte* data = nullptr;
    bool in_use = false;
    Event copied;
    std::span<std::byte>
        to;  ///< where on the host its bytes belong; empty on the way to the device
  };

  /// The buffer whose turn it is, free again.
  Buffer& next();
  /// Sends what `buffer` is used for on its way, between its data and the device.
  void start(Buffer& buffer, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
  /// Waits until the copy that `buffer` is used for is done.
  static void settle(Buffer& buffer);

  mutable std::mutex mutex_;
  int device_;
  cudaStream_t stream_ = nullptr;
  std::byte* ring_ = nullptr;
  std::array<Buffer, kBuffers> buffers_;
  std::size_t next_ = 0;  ///< the buffer that has been in use for longest
  Event before_, after_;
};

}  // namespace turnbench::cuda
