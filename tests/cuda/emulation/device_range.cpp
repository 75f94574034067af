#include "device_range.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "device.h"
#include "sanitizers.h"

#ifdef EMULATION_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, size) ((void)(data), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(data, size) ((void)(data), (void)(size))
#endif

namespace emulation {
namespace {

// Allocations of all devices, and the unused parts of split blocks.
constexpr std::size_t kReserved = 2 * kDevices * kMemoryBytes;
constexpr std::size_t kAlignment = 256, kRedZone = 256;
constexpr std::size_t kPage = 4096, kLarge = std::size_t{1} << 20;

std::size_t whole(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::size_t with_red_zone(std::size_t bytes) {
  return whole(bytes, kAlignment) + kRedZone;
}

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::abort();
}

}  // namespace

DeviceRange::DeviceRange() {
  void* data =
      mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) fail("emulated card: reserving addresses");
  base_ = static_cast<std::byte*>(data);
  madvise(base_, kReserved, MADV_HUGEPAGE);  // fewer entries to change at each open and close
  top_ = kRedZone;
  ASAN_POISON_MEMORY_REGION(base_, top_);
}

DeviceRange::~DeviceRange() {
  ASAN_UNPOISON_MEMORY_REGION(base_, top_);
  munmap(base_, kReserved);
}

void* DeviceRange::allocate(std::size_t bytes) {
  const std::size_t size = with_red_zone(bytes);
  std::size_t at = top_;
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second < size) continue;
    at = it->first;
    const std::size_t left = it->second - size;
    free_.erase(it);
    if (left > 0) free_[at + size] = left;
    break;
  }
  if (at == top_) {
    if (size > kReserved - top_) return nullptr;
    ASAN_POISON_MEMORY_REGION(base_ + top_, size);
    top_ += size;
    if (open_ > 0) protect(true);
  }
  open();
  ASAN_UNPOISON_MEMORY_REGION(base_ + at, bytes);
  std::memset(base_ + at, 0xFF, bytes);
  close();
  return base_ + at;
}

void DeviceRange::release(void* data, std::size_t bytes) {
  std::size_t at = static_cast<std::size_t>(static_cast<std::byte*>(data) - base_),
              size = with_red_zone(bytes);
  ASAN_POISON_MEMORY_REGION(data, bytes);
  if (size >= kLarge) {  // back to the system
    const std::size_t begin = whole(at, kPage), end = (at + size) / kPage * kPage;
    madvise(base_ + begin, end - begin, MADV_DONTNEED);
  }
  auto next = free_.lower_bound(at);
  if (next != free_.end() && next->first == at + size) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second == at) {
    std::prev(next)->second += size;
  } else {
    free_[at] = size;
  }
}

void DeviceRange::open() {
  if (open_++ == 0) protect(true);
}

void DeviceRange::close() {
  if (--open_ == 0) protect(false);
}

void DeviceRange::protect(bool accessible) {
  const std::size_t size = whole(top_, kPage);
  if (size > 0 && mprotect(base_, size, accessible ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
    fail("emulated card: changing the protection of memory");
}

}  // namespace emulation
