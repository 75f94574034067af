#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace turnbench {

// Arrays of integers of `bits` bits, 1 to 8, without gaps and with the lowest bits first.  One may
// lie in two bytes.

/// Writes element `index` of an array whose bits are 0 there.
inline void put_integer(std::byte* out, std::size_t index, std::size_t bits, unsigned value) {
  const std::size_t at = index * bits, low = at % 8;
  out[at / 8] |= static_cast<std::byte>(value << low);
  if (low + bits > 8) out[at / 8 + 1] |= static_cast<std::byte>(value >> (8 - low));
}

inline unsigned integer_at(const std::byte* from, std::size_t index, std::size_t bits) {
  const std::size_t at = index * bits, low = at % 8;
  unsigned out = std::to_integer<unsigned>(from[at / 8]) >> low;
  if (low + bits > 8) out |= std::to_integer<unsigned>(from[at / 8 + 1]) << (8 - low);
  return out & ((1u << bits) - 1);
}

/// Reads the first out.size() elements of an array.
void unpack_integers(const std::byte* from, std::size_t bits, std::span<std::uint8_t> out);

}  // namespace turnbench
