#include "inference/cpu/elementwise.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/cpu/elementwise.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "inference/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {

using Tag = hn::ScalableTag<float>;

void rms_norm_rows(const float* x, std::size_t ldx, std::size_t rows, std::size_t width,
                   const float* weight, float eps, float* out, std::size_t ldo) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t r = 0; r < rows; ++r, x += ldx, out += ldo) {
    const float mean = dot(x, x, width) / static_cast<float>(width);
    const float scale = 1.0f / std::sqrt(mean + eps);
    std::size_t i = 0;
    for (; i + lanes <= width; i += lanes) {
      const auto scaled = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, scale));
      hn::StoreU(hn::Mul(scaled, hn::LoadU(d, weight + i)), d, out + i);
    }
    for (; i < width; ++i) out[i] = x[i] * scale * weight[i];
  }
}

void rotate_heads(float* x, int heads, int head_dim, const float* cos, const float* sin) {
  const Tag d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  const int half = head_dim / 2;
  for (int h = 0; h < heads; ++h, x += head_dim) {
    int i = 0;
    for (; i + lanes <= half; i += lanes) {
      const auto a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + half + i);
      const auto c = hn::LoadU(d, cos + i), s = hn::LoadU(d, sin + i);
      hn::StoreU(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), d, x + i);
      hn::StoreU(hn::Add(hn::Mul(b, c), hn::Mul(a, s)), d, x + half + i);
    }
    for (; i < half; ++i) {
      const float a = x[i], b = x[half + i];
      x[i] = a * cos[i] - b * sin[i];
      x[half + i] = b * cos[i] + a * sin[i];
    }
  }
}

template <class D>
HWY_INLINE void silu_step(D d, const float* gate, const float* up, float* out) {
  // x * sigmoid(x); e^-|x| keeps the exponential in range.
  const auto x = hn::LoadU(d, gate), one = hn::Set(d, 1.0f);
  const auto e = exp_ps(d, hn::Neg(hn::Abs(x)));
  const auto negative = hn::Lt(x, hn::Zero(d));
  const auto sigmoid = hn::Div(hn::IfThenElse(negative, e, one), hn::Add(one, e));
  hn::StoreU(hn::Mul(hn::Mul(x, sigmoid), hn::LoadU(d, up)), d, out);
}

void silu(const float* gate, const float* up, std::size_t n, float* out) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) silu_step(d, gate + i, up + i, out + i);
  for (; i < n; ++i) silu_step(hn::CappedTag<float, 1>(), gate + i, up + i, out + i);
}

void add_rows(float* x, const float* y, std::size_t n) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::Add(hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, x + i);
  }
  for (; i < n; ++i) x[i] += y[i];
}

const char* target() {
  return hwy::TargetName(HWY_TARGET);
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench::cpu {

HWY_EXPORT(rms_norm_rows);
HWY_EXPORT(rotate_heads);
HWY_EXPORT(silu);
HWY_EXPORT(add_rows);
HWY_EXPORT(target);

void rms_norm(const float* x, std::size_t ldx, std::size_t rows, std::size_t width,
              const float* weight, float eps, float* out, std::size_t ldo) {
  HWY_DYNAMIC_DISPATCH(rms_norm_rows)(x, ldx, rows, width, weight, eps, out, ldo);
}

void rotate(float* x, int heads, int head_dim, const float* cos, const float* sin) {
  HWY_DYNAMIC_DISPATCH(rotate_heads)(x, heads, head_dim, cos, sin);
}

void silu_multiply(const float* gate, const float* up, std::size_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(silu)(gate, up, n, out);
}

void add(float* x, const float* y, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(add_rows)(x, y, n);
}

const char* instruction_set() {
  return HWY_DYNAMIC_DISPATCH(target)();
}

}  // namespace turnbench::cpu
#endif  // HWY_ONCE
