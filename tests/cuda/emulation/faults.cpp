#include "faults.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "device.h"

namespace emulation {
namespace {

std::size_t number_in(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

/// The value of `Faults::allocations_left` with which the n-th allocation fails.
std::size_t left_until(std::size_t n) {
  return n == 0 ? 0 : n + 1;
}

/// True for the address of pageable host memory, which a GPU cannot access.
bool is_pageable(std::uintptr_t address) {
  // Numbers and pairs of numbers are smaller than the addresses that user space maps by default.
  if (address < std::uintptr_t{1} << 44 || address >= std::uintptr_t{1} << 47) return false;
  const void* data = reinterpret_cast<const void*>(address);
  if (device().range.contains(data) || device().mapped.is_reserved(data) ||
      allocation_of(data) != nullptr) {
    return false;
  }
  constexpr std::uintptr_t kPage = 4096;
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(address / kPage * kPage), 1, &resident) == 0;
}

}  // namespace

Faults::Faults()
    : allocations_left(left_until(number_in("EMULATED_FAIL_ALLOCATION"))),
      launches_left(number_in("EMULATED_FAIL_LAUNCH")) {}

void fail_allocation(std::size_t n) {
  const Lock lock(device().mutex);
  device().faults.allocations_left = left_until(n);
}

void fail_launch(std::size_t n) {
  const Lock lock(device().mutex);
  device().faults.launches_left = n;
}

void restore_devices() {
  const Lock lock(device().mutex);
  for (bool& lost : device().faults.lost) lost = false;
}

bool allocation_fails() {
  std::size_t& left = device().faults.allocations_left;
  if (left > 1) --left;
  return left == 1;
}

bool is_lost(int number) {
  const Lock lock(device().mutex);
  return device().faults.lost[number];
}

cudaError_t lost_error() {
  return is_lost(current_device()) ? cudaErrorIllegalAddress : cudaSuccess;
}

bool begin_kernel(cudaStream_t stream, bool accesses_host) {
  const Lock lock(device().mutex);
  bool& lost = device().faults.lost[stream_of(stream).device];
  if (lost) return false;
  std::size_t& left = device().faults.launches_left;
  lost = (left > 0 && --left == 0) || accesses_host;
  return !lost;
}

bool has_pageable_address(const void* argument, std::size_t bytes) {
  const Lock lock(device().mutex);
  for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= bytes; at += sizeof(std::uintptr_t)) {
    std::uintptr_t word = 0;
    std::memcpy(&word, static_cast<const std::byte*>(argument) + at, sizeof(word));
    if (!is_pageable(word)) continue;
    std::fprintf(stderr,
                 "emulated card: a kernel's argument has the address %#zx of pageable host memory "
                 "at byte %zu of %zu\n",
                 static_cast<std::size_t>(word), at, bytes);
    return true;
  }
  return false;
}

}  // namespace emulation
