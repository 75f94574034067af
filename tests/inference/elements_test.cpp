// Arrays of elements against the definition of one element.

#include "inference/model/elements.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/cpu/simd_levels.h"

namespace turnbench::test {
namespace {

std::vector<std::byte> stored_one_by_one(const std::vector<float>& x, DType type) {
  std::vector<std::byte> out(x.size() * size_of(type));
  for (std::size_t i = 0; i < x.size(); ++i) store_element(out.data(), type, i, x[i]);
  return out;
}

std::vector<std::byte> stored(const std::vector<float>& x, DType type) {
  std::vector<std::byte> out(x.size() * size_of(type));
  store_elements(x, type, out.data());
  return out;
}

/// Every upper half of a float32 with lower halves around its roundings: infinities, NaN, denormal
/// numbers, and ties with even and odd neighbours are among them.
std::vector<float> upper_halves() {
  std::vector<float> out;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const std::uint32_t lower : {0x0000u, 0x0001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu})
      out.push_back(std::bit_cast<float>(upper << 16 | lower));
  }
  return out;
}

TEST(StoreElements, RoundsAsOneElementAtEverySimdLevel) {
  const std::vector<float> all = upper_halves();
  std::mt19937 random(1);
  with_each_simd_level([&](std::int64_t) {
    for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
      EXPECT_TRUE(stored(all, type) == stored_one_by_one(all, type)) << name_of(type);
      for (std::size_t count = 0; count < 70; ++count) {
        std::vector<float> x(count);
        for (float& value : x) value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
        EXPECT_EQ(stored(x, type), stored_one_by_one(x, type)) << name_of(type) << " " << count;
      }
    }
  });
}

}  // namespace
}  // namespace turnbench::test
