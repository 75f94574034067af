// The fast Walsh-Hadamard transform against Sylvester's construction.

#include "methods/parts/hadamard.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "tests/cpu/simd_levels.h"

namespace turnbench::test {
namespace {

std::vector<float> random_vector(std::size_t size) {
  std::mt19937 random(static_cast<std::uint32_t>(size));
  std::normal_distribution<float> normal;
  std::vector<float> out(size);
  for (float& x : out) x = normal(random);
  return out;
}

/// Element (r, c) is 1 / sqrt(size) with the sign of the parity of the common bits of r and c.
double element(std::size_t r, std::size_t c, std::size_t size) {
  return (std::popcount(r & c) % 2 == 0 ? 1 : -1) / std::sqrt(static_cast<double>(size));
}

/// The transform with the same sums in scalar code.
std::vector<float> plain_transform(std::vector<float> x) {
  for (std::size_t distance = 1; distance < x.size(); distance *= 2) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      if ((i & distance) != 0) continue;
      const float a = x[i], b = x[i + distance];
      x[i] = a + b;
      x[i + distance] = a - b;
    }
  }
  const float norm = 1 / std::sqrt(static_cast<float>(x.size()));
  for (float& value : x) value *= norm;
  return x;
}

TEST(Hadamard, IsTheProductWithTheMatrixAtEverySimdLevel) {
  with_each_simd_level([](std::int64_t) {
    for (const std::size_t size : {64u, 128u, 256u, 1024u}) {
      const std::vector<float> x = random_vector(size);
      std::vector<float> got = x;
      multiply_hadamard(got);
      for (std::size_t r = 0; r < size; ++r) {
        double want = 0;
        for (std::size_t c = 0; c < size; ++c)
          want += element(r, c, size) * static_cast<double>(x[c]);
        ASSERT_NEAR(got[r], want, 2e-6) << size << " " << r;
      }
      EXPECT_EQ(got, plain_transform(x)) << size;
    }
  });
}

}  // namespace
}  // namespace turnbench::test
