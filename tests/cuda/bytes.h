#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace turnbench::test {

/// Pseudo-random bytes, different for each seed.
inline std::vector<std::byte> bytes_of(std::size_t n, unsigned seed) {
  std::vector<std::byte> out(n);
  std::uint32_t state = seed * 2654435761u + 1;
  for (std::byte& b : out) {
    state = state * 1664525u + 1013904223u;
    b = static_cast<std::byte>(state >> 24);
  }
  return out;
}

}  // namespace turnbench::test
