#include "mapped_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sanitizers.h"

#ifdef EMULATION_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, size) ((void)(data), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(data, size) ((void)(data), (void)(size))
#endif

namespace emulation {
namespace {

void protect_range(std::uintptr_t address, std::size_t bytes, bool accessible) {
  if (mprotect(reinterpret_cast<void*>(address), bytes,
               accessible ? PROT_READ | PROT_WRITE : PROT_NONE) == 0) {
    return;
  }
  std::perror("emulated card: changing the protection of mapped memory");
  std::abort();
}

/// The entry of a map by address whose range may contain an address, or the end.
template <typename Map>
auto entry_at(const Map& map, std::uintptr_t address) {
  auto it = map.upper_bound(address);
  return it == map.begin() ? map.end() : --it;
}

}  // namespace

MappedMemory::~MappedMemory() {
  for (const auto& [address, bytes] : reserved_) give_back(address, bytes);
}

void MappedMemory::give_back(std::uintptr_t address, std::size_t bytes) {
  if (const auto touched = touched_.find(address); touched != touched_.end()) {
    ASAN_UNPOISON_MEMORY_REGION(reinterpret_cast<void*>(address), touched->second);
    touched_.erase(touched);
  }
  munmap(reinterpret_cast<void*>(address), bytes);
}

std::uintptr_t MappedMemory::reserve(std::size_t bytes) {
  void* data = mmap(nullptr, bytes + kGranularity, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return 0;
  const auto begin = reinterpret_cast<std::uintptr_t>(data),
             address = (begin + kGranularity - 1) / kGranularity * kGranularity;
  if (address > begin) munmap(data, address - begin);
  if (const std::size_t rest = begin + kGranularity - address; rest > 0)
    munmap(reinterpret_cast<void*>(address + bytes), rest);
  reserved_[address] = bytes;
  return address;
}

bool MappedMemory::free(std::uintptr_t address, std::size_t bytes) {
  const auto found = reserved_.find(address);
  if (found == reserved_.end() || found->second != bytes || !is_unmapped(address, bytes))
    return false;
  give_back(address, bytes);
  reserved_.erase(found);
  return true;
}

std::uintptr_t MappedMemory::range_of(std::uintptr_t address) const {
  const auto it = entry_at(reserved_, address);
  return it != reserved_.end() && address - it->first < it->second ? it->first : 0;
}

bool MappedMemory::is_unmapped(std::uintptr_t address, std::size_t bytes) const {
  const auto range = entry_at(reserved_, address);
  if (range == reserved_.end() || address + bytes > range->first + range->second) return false;
  const auto before = entry_at(mappings, address + bytes - 1);  // the last that may overlap
  return before == mappings.end() || before->first + before->second.bytes <= address;
}

void MappedMemory::make_accessible(std::uintptr_t address, Mapping& mapping) {
  mapping.is_accessible = true;
  const std::uintptr_t range = range_of(address);
  std::size_t& touched = touched_[range];
  touched = std::max(touched, address + mapping.bytes - range);
  void* data = reinterpret_cast<void*>(address);
  madvise(data, mapping.bytes, MADV_HUGEPAGE);  // fewer entries to change at each open and close
  protect_range(address, mapping.bytes, true);
  ASAN_UNPOISON_MEMORY_REGION(data, mapping.bytes);
  std::memset(data, 0xFF, mapping.bytes);
  if (open_ == 0) protect_range(address, mapping.bytes, false);
}

void MappedMemory::make_inaccessible(std::uintptr_t address, const Mapping& mapping) {
  void* data = reinterpret_cast<void*>(address);
  ASAN_POISON_MEMORY_REGION(data, mapping.bytes);
  protect_range(address, mapping.bytes, false);
  madvise(data, mapping.bytes, MADV_DONTNEED);  // back to the system
}

void MappedMemory::open() {
  if (open_++ == 0) protect(true);
}

void MappedMemory::close() {
  if (--open_ == 0) protect(false);
}

void MappedMemory::protect(bool accessible) const {
  std::uintptr_t begin = 0, end = 0;  // mappings that touch each other
  for (const auto& [address, mapping] : mappings) {
    if (!mapping.is_accessible) continue;
    if (address != end) {
      if (end > begin) protect_range(begin, end - begin, accessible);
      begin = address;
    }
    end = address + mapping.bytes;
  }
  if (end > begin) protect_range(begin, end - begin, accessible);
}

}  // namespace emulation
