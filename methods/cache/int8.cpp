#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "methods/method.h"
#include "methods/parts/encoding_time.h"

namespace turnbench {
namespace {

constexpr float kLargest = 127;  // of the stored integers, which are symmetric around 0

/// Rounds to 17 significant bits; below the range of normal numbers, to 0.  Products with integers
/// up to 127 are then exact in float32, so that a decoded row encodes to the same bytes.
float rounded_scale(float scale) {
  constexpr std::uint32_t kDropped = 0x7F;  // 7 of 24 bits
  if (scale < std::numeric_limits<float>::min()) return 0;
  auto bits = std::bit_cast<std::uint32_t>(scale);
  bits += (kDropped >> 1) + ((bits >> 7) & 1);  // to nearest, ties to even
  return std::bit_cast<float>(bits & ~kDropped);
}

/// An encoded row: the scale as float32, then [head_dim] of int8.
class Int8 : public Cloned<Int8, RowCodec> {
 public:
  std::size_t row_bytes(KvRow, int head_dim) const override {
    return sizeof(float) + static_cast<std::size_t>(head_dim);
  }

  void encode(KvRow, std::span<const float> row, std::span<std::byte> out) const override {
    float most = 0;
    bool is_finite = true;
    for (float x : row) {
      most = std::max(most, std::abs(x));
      is_finite &= std::isfinite(x);
    }
    // A row with an element that is not finite is read back as NaN, which the engine reports.
    const float scale =
        is_finite ? rounded_scale(most / kLargest) : std::numeric_limits<float>::quiet_NaN();
    std::memcpy(out.data(), &scale, sizeof scale);
    auto* integers = reinterpret_cast<std::int8_t*>(out.data() + sizeof scale);
    for (std::size_t d = 0; d < row.size(); ++d) {
      // A quotient of float32 values is never rounded to a tie in float64.
      const double quotient =
          is_finite && scale > 0 ? std::nearbyint(static_cast<double>(row[d]) / scale) : 0;
      integers[d] = static_cast<std::int8_t>(quotient);
    }
  }

  void decode(KvRow, std::span<const std::byte> bytes, std::span<float> out) const override {
    float scale = 0;
    std::memcpy(&scale, bytes.data(), sizeof scale);
    const auto* integers = reinterpret_cast<const std::int8_t*>(bytes.data() + sizeof scale);
    for (std::size_t d = 0; d < out.size(); ++d) out[d] = scale * static_cast<float>(integers[d]);
  }
};

}  // namespace

/// Keys and values as 8-bit integers with one scale per token, KV head and kind of row.
MethodInfo int8() {
  return {.name = "int8",
          .summary = "stores keys and values as 8-bit integers, one scale per key and per value",
          .paper = "none: symmetric rounding per token, the simplest quantised cache",
          .budget_unit = "no budget: every token is kept; head_dim + 4 bytes per key and per value",
          .deviations =
              "the scale, max |x| / 127, is rounded to 17 significant bits, so that a "
              "decoded row encodes to the same bytes; keys are encoded after RoPE; "
              "attention reads decoded copies, not the integers, so time is not saved",
          .parameters = {encoding_time_parameter()},
          .make = [](const Parameters& p) {
            return Policies{.codec = encoded_in_time(std::make_unique<Int8>(), p)};
          }};
}

}  // namespace turnbench
