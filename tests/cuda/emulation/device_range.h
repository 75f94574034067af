#pragma once

// The address range of the emulated GPUs' memory, which the host cannot access.

#include <cstddef>
#include <map>

namespace emulation {

/// One reserved range of addresses.  It is inaccessible (PROT_NONE) except while the emulation runs
/// operations of streams, so that host code that reads or writes device memory ends with a
/// segmentation fault at that line.  Bytes outside of allocations are poisoned for the address
/// sanitizer.  The device's mutex guards it.
class DeviceRange {
 public:
  DeviceRange();
  ~DeviceRange();
  DeviceRange(const DeviceRange&) = delete;
  DeviceRange& operator=(const DeviceRange&) = delete;

  /// A block at a 256-byte boundary, filled with bytes 0xFF; null if no addresses are left.
  void* allocate(std::size_t bytes);
  void release(void* data, std::size_t bytes);

  /// Whether an address is in this range.
  bool contains(const void* data) const {
    const auto* at = static_cast<const std::byte*>(data);
    return at >= base_ && at < base_ + top_;
  }

  /// Device code can access the range from `open` to `close`; calls nest.
  void open();
  void close();

 private:
  void protect(bool accessible);

  std::byte* base_ = nullptr;
  std::size_t top_ = 0;  ///< bytes in use or released; later bytes were never accessible
  std::map<std::size_t, std::size_t> free_;  ///< released blocks: sizes by offset, never adjacent
  int open_ = 0;
};

}  // namespace emulation
