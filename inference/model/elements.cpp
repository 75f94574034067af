#include "inference/model/elements.h"

#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/model/elements.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace turnbench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void store_bf16(const float* in, std::size_t count, std::byte* out) {
  const hn::ScalableTag<std::uint32_t> d;
  const hn::Rebind<std::uint16_t, decltype(d)> half;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {  // as in float_to_bf16
    const auto bits = hn::BitCast(d, hn::LoadU(hn::ScalableTag<float>(), in + i));
    const auto cut = hn::ShiftRight<16>(bits);
    const auto is_nan = hn::Gt(hn::And(bits, hn::Set(d, 0x7FFFFFFF)), hn::Set(d, 0x7F800000));
    const auto even = hn::And(cut, hn::Set(d, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(hn::Set(d, 0x7FFF), even)));
    const auto stored = hn::IfThenElse(is_nan, hn::Or(cut, hn::Set(d, 0x40)), rounded);
    hn::StoreU(hn::TruncateTo(half, stored), half, reinterpret_cast<std::uint16_t*>(out) + i);
  }
  for (; i < count; ++i) store_element(out, DType::kBF16, i, in[i]);
}

}  // namespace turnbench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench {

HWY_EXPORT(store_bf16);

namespace {

/// Whether the exponent of no element has all bits set, as those of infinities and NaN have.
/// No early exit, so that the loop is vectorised.
template <typename Element>
bool all_below(const std::byte* data, std::size_t count, Element exponent) {
  int found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Element x;
    std::memcpy(&x, data + i * sizeof(x), sizeof(x));
    found |= (x & exponent) == exponent ? 1 : 0;
  }
  return found == 0;
}

}  // namespace

bool all_finite(const std::byte* data, DType type, std::size_t count) {
  if (type == DType::kF32) return all_below<std::uint32_t>(data, count, 0x7F800000);
  return all_below<std::uint16_t>(data, count, type == DType::kF16 ? 0x7C00 : 0x7F80);
}

void store_elements(std::span<const float> in, DType type, std::byte* out) {
  switch (type) {
    case DType::kF32:
      std::memcpy(out, in.data(), in.size_bytes());
      break;
    case DType::kF16:
      for (std::size_t i = 0; i < in.size(); ++i) store_element(out, type, i, in[i]);
      break;
    case DType::kBF16:
      HWY_DYNAMIC_DISPATCH(store_bf16)(in.data(), in.size(), out);
      break;
  }
}

}  // namespace turnbench
#endif  // HWY_ONCE
