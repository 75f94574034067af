#include "inference/cuda/host_transfers.h"

#include <algorithm>
#include <cstring>

#include "inference/cuda/context.h"

namespace turnbench::cuda {
namespace {

/// Makes `device` the current device, for the creation of streams and events.  Returns it.
int chosen(int device) {
  check(cudaSetDevice(device), "choosing the device");
  return device;
}

}  // namespace

HostTransfers::HostTransfers(int device) : device_(chosen(device)) {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
}

HostTransfers::~HostTransfers() {
  cudaSetDevice(device_);
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
  cudaFreeHost(ring_);
}

void HostTransfers::to_device(void* to, std::span<const std::byte> from) {
  to_device(to, from.size(), [&](std::size_t at, std::span<std::byte> piece) {
    std::memcpy(piece.data(), from.data() + at, piece.size());
  });
}

void HostTransfers::to_device(void* to, std::size_t bytes, const Fill& fill) {
  const std::lock_guard lock(mutex_);
  for (std::size_t at = 0; at < bytes; at += kBufferBytes) {
    const std::size_t size = std::min(kBufferBytes, bytes - at);
    Buffer& buffer = next();
    fill(at, {buffer.data, size});
    start(buffer, static_cast<std::byte*>(to) + at, buffer.data, size, cudaMemcpyHostToDevice);
  }
}

void HostTransfers::to_host(std::span<std::byte> to, const void* from) {
  const std::lock_guard lock(mutex_);
  for (std::size_t at = 0; at < to.size(); at += kBufferBytes) {
    const std::size_t size = std::min(kBufferBytes, to.size() - at);
    Buffer& buffer = next();
    start(buffer, buffer.data, static_cast<const std::byte*>(from) + at, size,
          cudaMemcpyDeviceToHost);
    buffer.to = to.subspan(at, size);
  }
}

void HostTransfers::order_after(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  before_.record(stream);
  before_.block(stream_);
}

void HostTransfers::order_before(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  after_.record(stream_);
  after_.block(stream);
}

void HostTransfers::synchronize() {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < kBuffers; ++i) settle(buffers_[(next_ + i) % kBuffers]);
}

void HostTransfers::settle(std::span<const std::byte> host) {
  const std::lock_guard lock(mutex_);
  for (Buffer& buffer : buffers_) {
    const std::span<std::byte> to = buffer.to;
    if (buffer.in_use && to.data() < host.data() + host.size() &&
        host.data() < to.data() + to.size())
      settle(buffer);
  }
}

std::size_t HostTransfers::bytes() const {
  const std::lock_guard lock(mutex_);
  return ring_ == nullptr ? 0 : kBuffers * kBufferBytes;
}

HostTransfers::Buffer& HostTransfers::next() {
  if (ring_ == nullptr) {
    chosen(device_);
    void* data = nullptr;
    check(cudaMallocHost(&data, kBuffers * kBufferBytes), "allocating pinned memory");
    ring_ = static_cast<std::byte*>(data);
    for (std::size_t i = 0; i < kBuffers; ++i) buffers_[i].data = ring_ + i * kBufferBytes;
  }
  Buffer& buffer = buffers_[next_];
  settle(buffer);
  next_ = (next_ + 1) % kBuffers;
  return buffer;
}

void HostTransfers::start(Buffer& buffer, void* to, const void* from, std::size_t bytes,
                          cudaMemcpyKind kind) {
  check(cudaMemcpyAsync(to, from, bytes, kind, stream_), "starting a transfer");
  buffer.copied.record(stream_);
  buffer.in_use = true;
}

void HostTransfers::settle(Buffer& buffer) {
  if (!buffer.in_use) return;
  buffer.copied.synchronize();
  if (!buffer.to.empty()) std::memcpy(buffer.to.data(), buffer.data, buffer.to.size());
  buffer.in_use = false;
  buffer.to = {};
}

}  // namespace turnbench::cuda
