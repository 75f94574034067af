// Products of matrices for the emulated card: a plain loop in the place of the library's.

#include <algorithm>
#include <vector>

#include "inference/cuda/gemm.h"

namespace turnbench::cuda {
namespace {

/// Partial sums of a dot product: enough for the compiler's vectors, and in a fixed order.
constexpr std::size_t kLanes = 16;
/// Outputs whose weights are widened at once.
constexpr std::size_t kBlock = 16;

/// Rows as floats, zeros behind them up to a multiple of kLanes.
std::vector<float> widened(const void* data, DType type, std::size_t rows, std::size_t ld,
                           std::size_t width) {
  const std::size_t padded = (width + kLanes - 1) / kLanes * kLanes;
  std::vector<float> out(rows * padded);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t i = 0; i < width; ++i) {
      out[r * padded + i] = load_element(data, type, r * ld + i);
    }
  }
  return out;
}

/// Of what `widened` made, which has checked all that it read.
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

struct Gemm::Impl {};

Gemm::Gemm(Context&) {}

Gemm::~Gemm() = default;

void Gemm::run(Context& context, DType type, const void* x, std::size_t rows, std::size_t ldx,
               const void* w, std::size_t out, std::size_t in, float* y, std::size_t ldy) {
  const auto multiply = [=] {
    const std::vector<float> inputs = widened(x, type, rows, ldx, in);
    for (std::size_t first = 0; first < out; first += kBlock) {
      const std::size_t count = std::min(kBlock, out - first);
      const auto* block = static_cast<const std::byte*>(w) + first * in * size_of(type);
      const std::vector<float> weights = widened(block, type, count, in, in);
      const std::size_t padded = weights.size() / count;
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t o = 0; o < count; ++o) {
          y[r * ldy + first + o] = dot(&inputs[r * padded], &weights[o * padded], padded);
        }
      }
    }
  };
  emulation::count_launch(context.stream());
  check(emulation::enqueue(context.stream(), multiply), "multiplying");
}

std::size_t Gemm::bytes() const {
  return 0;
}

}  // namespace turnbench::cuda
