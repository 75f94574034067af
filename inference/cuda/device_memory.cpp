#include "inference/cuda/device_memory.h"

#include "inference/cuda/device_copies.h"

namespace turnbench::cuda {
namespace {

constexpr std::size_t kSlab = std::size_t{64} << 20, kAlignment = 256;
constexpr std::size_t kLargest = std::size_t{1} << 20;     // that is cut from a slab
constexpr std::size_t kTransfer = std::size_t{256} << 10;  // from here on, not staged in one piece

std::size_t rounded(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

DeviceMemory::~DeviceMemory() {
  cudaSetDevice(context_->device());
  cudaStreamSynchronize(context_->stream());
  for (const auto& [data, bytes] : blocks_) cudaFree(const_cast<std::byte*>(data));
}

std::byte* DeviceMemory::allocate_managed(std::size_t bytes) {
  check(cudaSetDevice(context_->device()), "choosing the device");
  void* data = nullptr;
  check(cudaMallocManaged(&data, bytes, cudaMemAttachGlobal), "allocating memory");
  context_->prefer_device(data, bytes);
  const auto out = static_cast<std::byte*>(data);
  blocks_[out] = bytes;
  return out;
}

std::byte* DeviceMemory::allocate(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  std::lock_guard lock(mutex_);
  if (auto& list = free_[size]; !list.empty()) {
    std::byte* out = list.back();
    list.pop_back();
    return out;
  }
  if (size > kLargest) return allocate_managed(size);
  if (slab_left_ < size) {
    slab_ = allocate_managed(kSlab);
    slab_left_ = kSlab;
  }
  std::byte* out = slab_;
  slab_ += size;
  slab_left_ -= size;
  return out;
}

void DeviceMemory::release(std::byte* data, std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  std::lock_guard lock(mutex_);
  const auto block = blocks_.find(data);
  if (size <= kLargest || block == blocks_.end()) {
    free_[size].push_back(data);
    return;
  }
  context_->synchronize();  // operations may still use it
  check(cudaFree(data), "freeing memory");
  blocks_.erase(block);
}

bool DeviceMemory::owns(const std::byte* data) const {
  std::lock_guard lock(mutex_);
  auto after = blocks_.upper_bound(data);
  if (after == blocks_.begin()) return false;
  --after;
  return data < after->first + after->second;
}

void DeviceMemory::copy(std::span<const Copy> copies) {
  std::vector<Copy> inside, up, down;
  for (const Copy& c : copies) {
    if (c.bytes == 0) continue;
    if (!owns(c.to)) {
      down.push_back(c);
    } else if (owns(c.from)) {
      inside.push_back(c);
    } else if (context_->is_on_another_device(c.from)) {
      context_->copy(c.to, c.from, c.bytes);  // from card to card
    } else if (c.bytes >= kTransfer) {
      up.push_back(c);
    } else {
      context_->copy_from_host(c.to, {c.from, c.bytes});
    }
  }
  if (!inside.empty()) copy_bytes(*context_, inside);
  if (up.empty() && down.empty()) return;
  // All copies to the host are transfers, so that of two copies to one address the later one wins.
  HostTransfers& transfers = context_->transfers();
  transfers.order_after(context_->stream());
  for (const Copy& c : up) transfers.to_device(c.to, {c.from, c.bytes});
  for (const Copy& c : down) transfers.to_host({c.to, c.bytes}, c.from);
  transfers.order_before(context_->stream());
}

std::size_t DeviceMemory::bytes() const {
  std::lock_guard lock(mutex_);
  std::size_t total = 0;
  for (const auto& [data, bytes] : blocks_) total += bytes;
  return total;
}

}  // namespace turnbench::cuda
