// Arrays of integers of a few bits, against a number of the same bits.

#include "methods/parts/packed_integers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace turnbench::test {
namespace {

/// The integer of `bits` bits from bit `first` on, one bit after another.
unsigned bits_at(const std::vector<std::byte>& bytes, std::size_t first, std::size_t bits) {
  unsigned out = 0;
  for (std::size_t b = 0; b < bits; ++b) {
    const std::size_t at = first + b;
    out |= (std::to_integer<unsigned>(bytes[at / 8]) >> at % 8 & 1) << b;
  }
  return out;
}

TEST(PackedIntegers, AreReadAsTheyWereWritten) {
  std::mt19937 random(1);
  for (std::size_t bits = 1; bits <= 8; ++bits) {
    for (const std::size_t count : {1u, 3u, 7u, 8u, 13u, 32u, 64u, 100u}) {
      std::vector<std::byte> bytes((count * bits + 7) / 8);
      std::vector<std::uint8_t> written(count), read(count);
      for (std::size_t i = 0; i < count; ++i) {
        written[i] = static_cast<std::uint8_t>(random() & ((1u << bits) - 1));
        put_integer(bytes.data(), i, bits, written[i]);
      }
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(bits_at(bytes, i * bits, bits), written[i]) << bits << " " << count;
        EXPECT_EQ(integer_at(bytes.data(), i, bits), written[i]) << bits << " " << count;
      }
      unpack_integers(bytes.data(), bits, read);
      EXPECT_EQ(read, written) << bits << " " << count;
    }
  }
}

}  // namespace
}  // namespace turnbench::test
