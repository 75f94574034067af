// Vector functions of the kernels: exponential, logarithm, sums in a fixed order.  Included once
// per instruction set.  Results do not depend on the vector length.

#if defined(TURNBENCH_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TURNBENCH_SIMD_MATH_INL_H_
#undef TURNBENCH_SIMD_MATH_INL_H_
#else
#define TURNBENCH_SIMD_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// e^x for x <= 88, with an error of about 2 ulp; exactly 0 below -87.  Range reduction by ln 2 in
/// two parts, then a polynomial of degree 6 with the coefficients of the Cephes library's expf.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_ps(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto underflow = hn::Lt(x, hn::Set(d, -87.0f));
  x = hn::Max(x, hn::Set(d, -87.0f));
  const V n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504088896341f)));
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  V p = hn::Set(d, 1.9875691500e-4f);
  p = hn::MulAdd(p, r, hn::Set(d, 1.3981999507e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1f));
  p = hn::Add(hn::MulAdd(hn::Mul(p, r), r, r), hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
  return hn::IfThenZeroElse(underflow, hn::Mul(p, hn::BitCast(d, exponent)));
}

/// -ln x for normal x > 0, with a relative error of about 8e-6: x = m 2^k with m in [2/3, 4/3),
/// then a minimax polynomial of degree 5 for ln(m) / (m - 1).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V negative_log_ps(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(di, x);
  const auto k = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3F2AAAAB)));
  const V r = hn::Sub(hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(k))), hn::Set(d, 1.0f));
  V p = hn::Set(d, -1.934982919e-1f);
  p = hn::MulAdd(p, r, hn::Set(d, 2.264650978e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, -2.484969193e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 3.321920368e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, -5.000201946e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.000007165f));
  return hn::NegMulSub(hn::ConvertTo(d, k), hn::Set(d, 0.693147181f), hn::Mul(p, r));
}

HWY_INLINE float exp_one(float x) {
  const hn::CappedTag<float, 4> d;
  return hn::GetLane(exp_ps(d, hn::Set(d, x)));
}

/// The sum of x [16], 64-byte aligned, in a fixed tree: halves are added until one number is left.
HWY_INLINE float sum16(const float* HWY_RESTRICT x) {
  const hn::CappedTag<float, 4> d;
  HWY_ALIGN float t[4];
  for (std::size_t i = 0; i < 4; i += hn::Lanes(d)) {
    hn::Store(hn::Add(hn::Add(hn::Load(d, x + i), hn::Load(d, x + i + 8)),
                      hn::Add(hn::Load(d, x + i + 4), hn::Load(d, x + i + 12))),
              d, t + i);
  }
  return (t[0] + t[2]) + (t[1] + t[3]);
}

/// The dot product of x [n] and y [n]: 16 interleaved chains of multiply-adds, then a fixed tree.
HWY_INLINE float dot(const float* HWY_RESTRICT x, const float* HWY_RESTRICT y, std::size_t n) {
  const hn::CappedTag<float, 16> d;
  const std::size_t lanes = hn::Lanes(d);
  HWY_ALIGN float partial[16] = {};
  std::size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (std::size_t j = 0; j < 16; j += lanes) {
      hn::Store(
          hn::MulAdd(hn::LoadU(d, x + i + j), hn::LoadU(d, y + i + j), hn::Load(d, partial + j)), d,
          partial + j);
    }
  }
  for (std::size_t j = 0; i + j < n; ++j)
    partial[j] = hn::GetLane(hn::MulAdd(hn::Set(hn::CappedTag<float, 1>(), x[i + j]),
                                        hn::Set(hn::CappedTag<float, 1>(), y[i + j]),
                                        hn::Set(hn::CappedTag<float, 1>(), partial[j])));
  return sum16(partial);
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
