#include "methods/parts/packed_integers.h"

namespace turnbench {
namespace {

/// Bytes that hold whole integers.
template <std::size_t kBits>
void unpack(const std::byte* from, std::size_t bytes, std::uint8_t* out) {
  constexpr std::size_t kCount = 8 / kBits;
  constexpr unsigned kMask = (1u << kBits) - 1;
  for (std::size_t b = 0; b < bytes; ++b) {
    const auto byte = std::to_integer<unsigned>(from[b]);
    for (std::size_t j = 0; j < kCount; ++j)
      out[b * kCount + j] = static_cast<std::uint8_t>(byte >> (j * kBits) & kMask);
  }
}

}  // namespace

void unpack_integers(const std::byte* from, std::size_t bits, std::span<std::uint8_t> out) {
  std::size_t done = 0;
  const auto unpack_bytes = [&]<std::size_t kBits>() {
    const std::size_t bytes = out.size() * kBits / 8;
    unpack<kBits>(from, bytes, out.data());
    done = bytes * (8 / kBits);
  };
  if (bits == 1) unpack_bytes.operator()<1>();
  if (bits == 2) unpack_bytes.operator()<2>();
  if (bits == 4) unpack_bytes.operator()<4>();
  if (bits == 8) unpack_bytes.operator()<8>();
  for (std::size_t i = done; i < out.size(); ++i)
    out[i] = static_cast<std::uint8_t>(integer_at(from, i, bits));
}

}  // namespace turnbench
