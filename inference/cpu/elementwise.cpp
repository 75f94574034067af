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

void rms_norm_rows(MatrixView<const float> x, const float* weight, float eps,
                   MatrixView<float> out) {
  const Tag d;
  const std::int64_t lanes = hn::Lanes(d), width = x.columns;
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const float* from = x.row(r);
    float* to = out.row(r);
    const float mean = dot(from, from, width) / static_cast<float>(width);
    const float scale = 1.0f / std::sqrt(mean + eps);
    std::int64_t i = 0;
    for (; i + lanes <= width; i += lanes) {
      const auto scaled = hn::Mul(hn::LoadU(d, from + i), hn::Set(d, scale));
      hn::StoreU(hn::Mul(scaled, hn::LoadU(d, weight + i)), d, to + i);
    }
    for (; i < width; ++i) to[i] = from[i] * scale * weight[i];
  }
}

/// Rotates the heads of one row, x [heads, head_dim], by cos, sin [head_dim / 2].
HWY_INLINE void rotate_heads(MatrixView<float> heads, const float* cos, const float* sin) {
  const Tag d;
  const std::int64_t lanes = hn::Lanes(d), half = heads.columns / 2;
  for (std::int64_t h = 0; h < heads.rows; ++h) {
    float* x = heads.row(h);
    std::int64_t i = 0;
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

void rotate_rows(MatrixView<float> x, MatrixView<const float> cos, MatrixView<const float> sin) {
  const std::int64_t head_dim = 2 * cos.columns;
  for (std::int64_t r = 0; r < x.rows; ++r)
    rotate_heads({x.row(r), x.columns / head_dim, head_dim}, cos.row(r), sin.row(r));
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

void silu(MatrixView<const float> gate_up, MatrixView<float> out) {
  const Tag d;
  const std::int64_t lanes = hn::Lanes(d), width = out.columns;
  for (std::int64_t r = 0; r < out.rows; ++r) {
    const float *gate = gate_up.row(r), *up = gate + width;
    float* to = out.row(r);
    std::int64_t i = 0;
    for (; i + lanes <= width; i += lanes) silu_step(d, gate + i, up + i, to + i);
    for (; i < width; ++i) silu_step(hn::CappedTag<float, 1>(), gate + i, up + i, to + i);
  }
}

void add_floats(float* x, const float* y, std::int64_t n) {
  const Tag d;
  const std::int64_t lanes = hn::Lanes(d);
  std::int64_t i = 0;
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
HWY_EXPORT(rotate_rows);
HWY_EXPORT(silu);
HWY_EXPORT(add_floats);
HWY_EXPORT(target);

void rms_norm(MatrixView<const float> x, const float* weight, float eps, MatrixView<float> out) {
  HWY_DYNAMIC_DISPATCH(rms_norm_rows)(x, weight, eps, out);
}

void apply_rope(MatrixView<float> x, MatrixView<const float> cos, MatrixView<const float> sin) {
  HWY_DYNAMIC_DISPATCH(rotate_rows)(x, cos, sin);
}

void silu_multiply(MatrixView<const float> gate_up, MatrixView<float> out) {
  HWY_DYNAMIC_DISPATCH(silu)(gate_up, out);
}

void add(float* x, const float* y, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(add_floats)(x, y, n);
}

const char* instruction_set() {
  return HWY_DYNAMIC_DISPATCH(target)();
}

}  // namespace turnbench::cpu
#endif  // HWY_ONCE
