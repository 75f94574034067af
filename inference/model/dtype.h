#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace turnbench {

/// Element types of weights and of the KV cache.
enum class DType : std::uint8_t { kF32, kF16, kBF16 };

/// Arithmetic of a model.  kBF16Linear: the factors of products in linear layers are rounded to
/// bf16.  kBF16: also those of attention, if the KV cache is bf16.  Sums and everything else are
/// always float32.
enum class Math : std::uint8_t { kF32, kBF16Linear, kBF16 };
inline constexpr auto kAllMath = {Math::kF32, Math::kBF16Linear, Math::kBF16};
/// Factors of bf16 need weights of bf16.
constexpr bool needs_bf16_weights(Math m) {
  return m != Math::kF32;
}

/// What a model's arithmetic is with a KV cache of the given type.
constexpr Math with_cache(Math m, DType cache) {
  return m == Math::kBF16 && cache != DType::kBF16 ? Math::kBF16Linear : m;
}

constexpr std::size_t size_of(DType t) {
  return t == DType::kF32 ? 4 : 2;
}

constexpr std::string_view name_of(DType t) {
  return t == DType::kF32 ? "f32" : t == DType::kF16 ? "f16" : "bf16";
}

constexpr std::string_view name_of(Math m) {
  return m == Math::kF32 ? "f32" : m == Math::kBF16Linear ? "bf16-linear" : "bf16";
}

inline float bf16_to_float(std::uint16_t x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
}

/// Rounds to nearest, ties to even.  NaN stays NaN.
inline std::uint16_t float_to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

inline float f16_to_float(std::uint16_t x) {
  const std::uint32_t sign = static_cast<std::uint32_t>(x & 0x8000) << 16;
  const std::uint32_t exponent = (x >> 10) & 0x1F, mantissa = x & 0x3FF;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact in float
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide = exponent == 31 ? 0x7F800000 : (exponent + 112) << 23;
  return std::bit_cast<float>(sign | wide | (mantissa << 13));
}

/// Rounds to nearest, ties to even.  Overflow becomes infinity; NaN stays NaN.
inline std::uint16_t float_to_f16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return sign | 0x7E00;
  if (magnitude >= 0x477FF000) return sign | 0x7C00;  // at least 65520: rounds to infinity
  if (magnitude < 0x38800000) {                       // below 2^-14: subnormal, in units of 2^-24
    const float units = std::bit_cast<float>(magnitude) * 0x1p24f;
    const float rounded = (units + 0x1p23f) - 0x1p23f;  // nearest even integer
    return sign | static_cast<std::uint16_t>(rounded);
  }
  const std::uint32_t even = magnitude + 0xFFF + ((magnitude >> 13) & 1);
  return sign | static_cast<std::uint16_t>((even - 0x38000000) >> 13);
}

/// Element `i` of an array of `type`, as float.
inline float load_element(const void* data, DType type, std::size_t i) {
  switch (type) {
    case DType::kF32:
      return static_cast<const float*>(data)[i];
    case DType::kF16:
      return f16_to_float(static_cast<const std::uint16_t*>(data)[i]);
    case DType::kBF16:
      return bf16_to_float(static_cast<const std::uint16_t*>(data)[i]);
  }
  return 0;
}

/// Stores x, rounded to `type`, as element `i` of an array.
inline void store_element(void* data, DType type, std::size_t i, float x) {
  switch (type) {
    case DType::kF32:
      static_cast<float*>(data)[i] = x;
      break;
    case DType::kF16:
      static_cast<std::uint16_t*>(data)[i] = float_to_f16(x);
      break;
    case DType::kBF16:
      static_cast<std::uint16_t*>(data)[i] = float_to_bf16(x);
      break;
  }
}

}  // namespace turnbench
