#include "inference/cuda/device_memory.h"

#include <algorithm>
#include <bit>

#include "inference/cuda/device_copies.h"

namespace turnbench::cuda {
namespace {

constexpr std::size_t kLargestSlab = std::size_t{64} << 20, kAlignment = 256;
constexpr std::size_t kLargest = std::size_t{1} << 20;  // largest block that is cut from a slab
// Copies of at least this size are not staged in one piece.
constexpr std::size_t kTransfer = std::size_t{256} << 10;
constexpr std::size_t kLargestGrowth = std::size_t{8}
                                       << 20;  // maximum growth of a range of pages at once

/// The last element of `map` with a key of at most `key`; null if there is none.
template <typename Map>
auto last_up_to(Map& map, const typename Map::key_type& key) {
  auto after = map.upper_bound(key);
  return after == map.begin() ? nullptr : &*--after;
}

}  // namespace

std::size_t size_class(std::size_t bytes) {
  const std::size_t octave = std::bit_floor(std::max(bytes, kAlignment)),
                    step = std::max(octave / 8, kAlignment);
  return (std::max<std::size_t>(bytes, 1) + step - 1) / step * step;
}

/// The pool's handle of a range.
class DeviceMemory::Pages : public PageRange {
 public:
  Pages(DeviceMemory& memory, Range& range)
      : PageRange(range.memory.data(), range.stride), memory_(memory), range_(range) {}
  ~Pages() override {
    std::lock_guard lock(memory_.mutex_);
    range_.is_released = true;
    range_.used = 0;
  }
  void grow() override {
    std::lock_guard lock(memory_.mutex_);
    memory_.grow(range_);
    size_ = range_.used / stride();
  }

 private:
  DeviceMemory& memory_;
  Range& range_;
};

DeviceMemory::DeviceMemory(std::shared_ptr<Context> context)
    : context_(std::move(context)), virtual_memory_(context_->device()) {}

DeviceMemory::~DeviceMemory() {
  cudaSetDevice(context_->device());
  cudaStreamSynchronize(context_->stream());
  for (const auto& [data, bytes] : blocks_) cudaFree(const_cast<std::byte*>(data));
}

std::byte* DeviceMemory::allocate_block(std::size_t bytes) {
  std::byte* out = context_->try_allocate(bytes);
  if (out == nullptr && give_back_released()) out = context_->try_allocate(bytes);
  if (out == nullptr) out = context_->allocate(bytes, "keys, values and activations");
  blocks_[out] = bytes;
  return out;
}

std::unique_ptr<PageRange> DeviceMemory::reserve_pages(std::size_t stride) {
  std::lock_guard lock(mutex_);
  for (auto& [data, range] : ranges_) {
    if (!range.is_released || range.stride != stride) continue;
    range.is_released = false;
    return std::make_unique<Pages>(*this, range);
  }
  MappedRange memory(virtual_memory_, context_->properties().totalGlobalMem);
  const std::byte* data = memory.data();
  Range& range = ranges_.emplace(data, Range{std::move(memory), stride}).first->second;
  return std::make_unique<Pages>(*this, range);
}

/// Doubles the usable part of a range, so that small caches stay small.  Memory that was mapped for
/// an earlier user is used first.
void DeviceMemory::grow(Range& range) {
  const std::size_t most = std::max(range.stride, kLargestGrowth),
                    piece = virtual_memory_.whole(std::clamp(range.used, range.stride, most));
  if (range.memory.mapped() < range.used + range.stride && !range.memory.extend(piece) &&
      !(give_back_released() && range.memory.extend(piece))) {
    throw out_of_memory(context_->device(), piece, "keys and values");
  }
  range.used = std::min(range.memory.mapped(), range.used + piece) / range.stride * range.stride;
}

/// Returns memory to CUDA: released blocks that are not part of a slab, released ranges, and memory
/// mapped in other ranges for later growth.  Returns false if there is none.
bool DeviceMemory::give_back_released() {
  bool any = false;
  for (auto it = ranges_.begin(); it != ranges_.end();) {
    Range& range = it->second;
    if (range.memory.has_beyond(range.used)) {
      if (!any) context_->synchronize();  // operations may still use them
      any = true;
      range.memory.shrink(range.used);
    }
    it = range.is_released ? ranges_.erase(it) : std::next(it);
  }
  for (auto& [size, list] : free_) {
    if (size <= kLargest || list.empty()) continue;
    if (!any) context_->synchronize();  // operations may still use them
    any = true;
    for (std::byte* data : list) {
      check(cudaFree(data), "freeing memory");
      blocks_.erase(data);
    }
    list.clear();
  }
  return any;
}

std::byte* DeviceMemory::allocate(std::size_t bytes) {
  const std::size_t size = size_class(bytes);
  std::lock_guard lock(mutex_);
  if (auto& list = free_[size]; !list.empty()) {
    std::byte* out = list.back();
    list.pop_back();
    return out;
  }
  if (size > kLargest) return allocate_block(size);
  if (slab_left_ < size) {
    slab_ = allocate_block(next_slab_);
    slab_left_ = next_slab_;
    next_slab_ = std::min(2 * next_slab_, kLargestSlab);
  }
  std::byte* out = slab_;
  slab_ += size;
  slab_left_ -= size;
  return out;
}

void DeviceMemory::release(std::byte* data, std::size_t bytes) noexcept {
  std::lock_guard lock(mutex_);
  free_[size_class(bytes)].push_back(data);
}

bool DeviceMemory::owns(const std::byte* data) const {
  std::lock_guard lock(mutex_);
  const auto* range = last_up_to(ranges_, data);
  if (range != nullptr && data < range->first + range->second.memory.mapped()) return true;
  const auto* block = last_up_to(blocks_, data);
  return block != nullptr && data < block->first + block->second;
}

void DeviceMemory::copy(std::span<const Copy> copies) {
  HostTransfers& transfers = context_->transfers();
  std::vector<Copy> inside, up, down;
  for (const Copy& c : copies) {
    if (c.bytes == 0) continue;
    if (!owns(c.to)) {
      down.push_back(c);
    } else if (owns(c.from)) {
      inside.push_back(c);
    } else if (is_device_memory(c.from)) {
      context_->copy(c.to, c.from,
                     c.bytes);  // memory of another backend, on this device or another
    } else {
      transfers.settle({c.from, c.bytes});  // an earlier copy to this address may be pending
      if (c.bytes >= kTransfer) {
        up.push_back(c);
        continue;
      }
      context_->copy_from_host(c.to, {c.from, c.bytes});
    }
  }
  if (!inside.empty()) copy_bytes(*context_, inside);
  if (up.empty() && down.empty()) return;
  // All copies to the host are transfers, so that two copies to one address are executed in order.
  transfers.order_after(context_->stream());
  for (const Copy& c : up) transfers.to_device(c.to, {c.from, c.bytes});
  for (const Copy& c : down) transfers.to_host({c.to, c.bytes}, c.from);
  transfers.order_before(context_->stream());
}

std::size_t DeviceMemory::bytes() const {
  std::lock_guard lock(mutex_);
  std::size_t total = 0;
  for (const auto& [data, bytes] : blocks_) total += bytes;
  for (const auto& [data, range] : ranges_) total += range.memory.mapped();
  return total;
}

}  // namespace turnbench::cuda
