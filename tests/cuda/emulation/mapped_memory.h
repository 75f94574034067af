#pragma once

// The addresses that the emulated driver reserves, and the memory that is mapped there (cuda.h).

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace emulation {

/// Reserved ranges of addresses and the memory that is mapped there.  Everything is inaccessible
/// (PROT_NONE), except for mapped memory with access, while the emulation runs operations of
/// streams.  The device's mutex guards it.
class MappedMemory {
 public:
  static constexpr std::size_t kGranularity = std::size_t{2} << 20;

  struct Memory {
    std::size_t bytes;
    int device;
    bool is_mapped = false, is_released = false;
  };
  struct Mapping {
    std::size_t bytes;
    unsigned long long handle;
    bool is_accessible = false;
  };

  MappedMemory() = default;
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  /// The address; 0 if no address range is left.
  std::uintptr_t reserve(std::size_t bytes);
  /// False if these are not a result of `reserve`, or memory is mapped there.
  bool free(std::uintptr_t address, std::size_t bytes);
  /// The begin of the reserved range that contains an address; 0: none.
  std::uintptr_t range_of(std::uintptr_t address) const;
  bool is_reserved(const void* data) const {
    return range_of(reinterpret_cast<std::uintptr_t>(data)) != 0;
  }
  /// Whether these addresses are in one reserved range without mapped memory.
  bool is_unmapped(std::uintptr_t address, std::size_t bytes) const;

  void make_accessible(std::uintptr_t address, Mapping& mapping);
  void make_inaccessible(std::uintptr_t address, const Mapping& mapping);

  /// Device code can access mapped memory from `open` to `close`; calls nest.
  void open();
  void close();

  bool is_supported = true;
  std::string missing_function;
  std::map<unsigned long long, Memory> memories;  ///< by handle
  std::map<std::uintptr_t, Mapping> mappings;     ///< by address
  unsigned long long last_handle = 0;

 private:
  void protect(bool accessible) const;

  /// Unmaps a reserved range from the process.  Unpoisons only memory that was mapped there: the
  /// sanitizer's shadow of a whole range takes gigabytes.
  void give_back(std::uintptr_t address, std::size_t bytes);

  std::map<std::uintptr_t, std::size_t> reserved_;  // bytes by address
  std::map<std::uintptr_t, std::size_t> touched_;   // by begin of a range: bytes that were mapped
  int open_ = 0;
};

}  // namespace emulation
