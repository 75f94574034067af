#include "methods/parts/hadamard.h"

#include <bit>
#include <cassert>
#include <cmath>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "methods/parts/hadamard.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace turnbench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A step with a distance that is a multiple of the vector's elements.
template <class D>
HWY_INLINE void transform_pairs(D d, float* x, std::size_t count, std::size_t distance) {
  for (std::size_t first = 0; first < count; first += 2 * distance) {
    for (std::size_t i = first; i < first + distance; i += hn::Lanes(d)) {
      const auto a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + i + distance);
      hn::StoreU(hn::Add(a, b), d, x + i);
      hn::StoreU(hn::Sub(a, b), d, x + i + distance);
    }
  }
}

#if HWY_TARGET != HWY_SCALAR
/// The first two steps, within blocks of 4 elements: (a, b) -> (a + b, a - b) for elements at
/// distance 1, then at distance 2.
HWY_INLINE void transform_blocks(float* x, std::size_t count) {
  const hn::ScalableTag<float> d;
  HWY_ALIGN static constexpr float kOdd[] = {0, -0.0f, 0, -0.0f}, kUpper[] = {0, 0, -0.0f, -0.0f};
  const auto odd = hn::LoadDup128(d, kOdd), upper = hn::LoadDup128(d, kUpper);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    auto v = hn::LoadU(d, x + i);
    v = hn::Add(hn::Shuffle2301(v), hn::Xor(v, odd));
    v = hn::Add(hn::Shuffle1032(v), hn::Xor(v, upper));
    hn::StoreU(v, d, x + i);
  }
}
#endif

void transform(float* x, std::size_t count, float norm) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t distance = 1;
#if HWY_TARGET != HWY_SCALAR
  transform_blocks(x, count);
  distance = 4;
  for (; distance < lanes; distance *= 2)
    transform_pairs(hn::FixedTag<float, 4>(), x, count, distance);
#endif
  for (; distance < count; distance *= 2) transform_pairs(d, x, count, distance);
  for (std::size_t i = 0; i < count; i += lanes)
    hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, norm)), d, x + i);
}

}  // namespace turnbench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench {

HWY_EXPORT(transform);

void multiply_hadamard(std::span<float> x) {
  assert(std::has_single_bit(x.size()) && x.size() >= 64);
  const float norm = 1 / std::sqrt(static_cast<float>(x.size()));
  HWY_DYNAMIC_DISPATCH(transform)(x.data(), x.size(), norm);
}

}  // namespace turnbench
#endif  // HWY_ONCE
