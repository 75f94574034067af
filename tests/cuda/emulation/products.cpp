#include "products.h"

#include <algorithm>
#include <vector>

namespace emulation {
namespace {

/// Number of partial sums of a dot product: enough for the compiler's vectors, and in a fixed
/// order.
constexpr std::size_t kLanes = 16;
/// Number of vectors that are converted to float at once.
constexpr std::size_t kBlock = 16;

/// Vectors [first, first + count) as floats, padded with zeros to a multiple of kLanes.
std::vector<float> widened(const Factor& f, std::size_t first, std::size_t count, std::size_t k) {
  const std::size_t padded = (k + kLanes - 1) / kLanes * kLanes;
  std::vector<float> out(count * padded);
  for (std::size_t v = 0; v < count; ++v) {
    for (std::size_t i = 0; i < k; ++i) {
      out[v * padded + i] =
          turnbench::load_element(f.data, f.type, (first + v) * f.stride + i * f.step);
    }
  }
  return out;
}

/// A product of results of `widened`, which has checked all its reads.
__attribute__((no_sanitize("address", "undefined"))) float dot(const float* a, const float* b,
                                                               std::size_t padded) {
  float sums[kLanes] = {};
  for (std::size_t i = 0; i < padded; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

}  // namespace

void multiply(const MatrixProduct& p) {
  const std::vector<float> all_n = widened(p.n, 0, p.n.count, p.k);
  for (std::size_t first = 0; first < p.m.count; first += kBlock) {
    const std::size_t count = std::min(kBlock, p.m.count - first);
    const std::vector<float> block = widened(p.m, first, count, p.k);
    const std::size_t padded = block.size() / count;
    for (std::size_t j = 0; j < p.n.count; ++j) {
      for (std::size_t i = 0; i < count; ++i) {
        const float sum = p.alpha * dot(&all_n[j * padded], &block[i * padded], padded);
        float& to = p.d[j * p.ldd + first + i];
        to = p.beta == 0 ? sum : sum + p.beta * p.c[j * p.ldc + first + i];
      }
    }
  }
}

}  // namespace emulation
