#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "common/error.h"
#include "inference/model/dtype.h"
#include "methods/method.h"
#include "methods/parts/packed_integers.h"

namespace turnbench {
namespace {

/// `x` rounded to float16.
float f16(float x) {
  return f16_to_float(float_to_f16(x));
}

/// KIVI (Liu et al., ICML 2024, section 3): keys are quantised per channel, in groups of
/// consecutive tokens; values per token, in groups of channels.  A group of n elements is stored as
/// its scale and its minimum in float16, and n integers of `bits` bits.
class Kivi : public Cloned<Kivi, GroupCodec> {
 public:
  Kivi(int bits, int group, int residual) : bits_(bits), group_(group), residual_(residual) {}

  std::size_t row_bytes(KvRow kind, int head_dim) const override {
    if (kind != KvRow::kValue) {
      const auto group = static_cast<std::size_t>(group_);
      return (static_cast<std::size_t>(head_dim) * group_bytes(group_) + group - 1) / group;
    }
    std::size_t out = 0;
    for (int d = 0; d < head_dim; d += group_) out += group_bytes(std::min(group_, head_dim - d));
    return out;
  }

  int group(KvRow kind) const override { return kind == KvRow::kValue ? 1 : group_; }

  /// Of keys, the newest n modulo `residual` tokens stay elements; of values, the newest
  /// `residual`.
  int encoded_rows(KvRow kind, int tokens) const override {
    return kind == KvRow::kValue ? std::max(0, tokens - residual_) : tokens / residual_ * residual_;
  }

  void encode(KvRow kind, MatrixView<const float> rows, std::span<std::byte> out) const override {
    for_each_group(kind, rows, out,
                   [&](const float* first, std::int64_t distance, int count, std::byte* stored) {
                     encode_group(first, distance, count, stored);
                   });
  }

  void decode(KvRow kind, std::span<const std::byte> bytes, MatrixView<float> out) const override {
    if (kind == KvRow::kValue) {
      for_each_group(kind, out, bytes,
                     [&](float* first, std::int64_t, int count, const std::byte* stored) {
                       decode_channels(stored, {first, static_cast<std::size_t>(count)});
                     });
    } else {
      decode_tokens(bytes, out);
    }
  }

 private:
  static constexpr std::size_t kHeader = 2 * sizeof(std::uint16_t);
  static constexpr std::size_t kMostElements = 64;  // of a group

  std::size_t group_bytes(int elements) const {
    return kHeader + static_cast<std::size_t>(elements * bits_ + 7) / 8;
  }
  int largest() const { return (1 << bits_) - 1; }

  /// Calls visit(first element, distance of its elements, their number, stored bytes) for each
  /// group.  rows: [group, head_dim].
  template <typename T, typename Byte, typename Visit>
  void for_each_group(KvRow kind, MatrixView<T> rows, std::span<Byte> bytes,
                      const Visit& visit) const {
    const int head_dim = static_cast<int>(rows.columns);
    const bool is_value = kind == KvRow::kValue;
    for (int d = 0; d < head_dim; d += is_value ? group_ : 1) {
      const int count = is_value ? std::min(group_, head_dim - d) : group_;
      visit(rows.row(0) + d, is_value ? 1 : rows.stride, count, bytes.data());
      bytes = bytes.subspan(group_bytes(count));
    }
  }

  /// Computes as the official code does with float16 elements: each result is rounded to float16.
  void encode_group(const float* first, std::int64_t distance, int count, std::byte* out) const {
    float least = std::numeric_limits<float>::infinity(), most = -least;
    bool is_finite = true;
    for (int i = 0; i < count; ++i) {
      const float x = f16(first[i * distance]);
      is_finite &= std::isfinite(x);
      least = std::min(least, x);
      most = std::max(most, x);
    }
    float scale = f16(f16(most - least) / static_cast<float>(largest()));
    // A group that cannot be stored is read back as NaN, which the engine reports.
    if (!is_finite || !std::isfinite(scale)) scale = std::numeric_limits<float>::quiet_NaN();
    const std::uint16_t header[] = {float_to_f16(scale), float_to_f16(least)};
    std::memcpy(out, header, kHeader);
    std::fill_n(out + kHeader, group_bytes(count) - kHeader, std::byte{0});
    if (!(scale > 0)) return;  // all elements are equal
    const auto bits = static_cast<std::size_t>(bits_);
    for (int i = 0; i < count; ++i) {
      const float steps = f16(f16(f16(first[i * distance]) - least) / scale);
      const auto integer = static_cast<unsigned>(
          std::nearbyint(std::clamp(steps, 0.0f, static_cast<float>(largest()))));
      put_integer(out + kHeader, static_cast<std::size_t>(i), bits, integer);
    }
  }

  struct Header {
    float scale, least;
  };
  static Header header(const std::byte* stored) {
    std::uint16_t both[2];
    std::memcpy(both, stored, kHeader);
    return {f16_to_float(both[0]), f16_to_float(both[1])};
  }

  /// A group of channels of a value.
  void decode_channels(const std::byte* stored, std::span<float> out) const {
    const auto [scale, least] = header(stored);
    std::array<std::uint8_t, kMostElements> memory;
    const std::span integers(memory.data(), out.size());
    unpack_integers(stored + kHeader, static_cast<std::size_t>(bits_), integers);
    for (std::size_t d = 0; d < out.size(); ++d)
      out[d] = scale * static_cast<float>(integers[d]) + least;
  }

  /// The groups of all channels of keys.  out: [group, head_dim].
  void decode_tokens(std::span<const std::byte> bytes, MatrixView<float> out) const {
    const auto channels = static_cast<std::size_t>(out.columns),
               tokens = static_cast<std::size_t>(group_);
    std::vector<float> scale(channels), least(channels);
    std::vector<std::uint8_t> integers(tokens * channels);  // [tokens, channels]
    std::array<std::uint8_t, kMostElements> memory;
    const std::span channel(memory.data(), tokens);
    for (std::size_t d = 0; d < channels; ++d) {
      const std::byte* stored = bytes.data() + d * group_bytes(group_);
      const Header of = header(stored);
      scale[d] = of.scale;
      least[d] = of.least;
      unpack_integers(stored + kHeader, static_cast<std::size_t>(bits_), channel);
      for (std::size_t t = 0; t < tokens; ++t) integers[t * channels + d] = channel[t];
    }
    for (std::size_t t = 0; t < tokens; ++t) {
      float* row = out.row(static_cast<std::int64_t>(t));
      const std::uint8_t* from = integers.data() + t * channels;
      for (std::size_t d = 0; d < channels; ++d)
        row[d] = scale[d] * static_cast<float>(from[d]) + least[d];
    }
  }

  int bits_, group_, residual_;
};

}  // namespace

/// KIVI: keys per channel, values per token, and the newest tokens as they are.
MethodInfo kivi() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "kivi",
      .summary =
          "stores keys as 2-, 4- or 8-bit integers with scales per channel, values with scales per "
          "token; the newest tokens stay as they are",
      .paper = "KIVI: A Tuning-Free Asymmetric 2bit Quantization for KV Cache (ICML 2024)",
      .budget_unit =
          "no budget: every token is kept; head_dim * bits / 8 bytes per encoded key and per "
          "encoded "
          "value, and 4 for each `group` elements of head_dim or a part of them",
      .deviations =
          "keys and values have the same number of bits; keys are encoded after RoPE; rows are "
          "rounded to float16 before they are encoded, also if the cache is float32 (an error if "
          "that or the range of a group is not finite); decoded elements are not rounded to "
          "float16; equal elements of a group are stored as 0 (official code: 0 / 0); if head_dim "
          "is not a multiple of the group, the last group of a value is shorter (official code: "
          "refused); a prompt reads its own rows as they are, and those of earlier turns as they "
          "are stored; refused with placement=host and with evictions in decode steps; attention "
          "reads decoded copies, not the integers, so time is not saved",
      .parameters =
          {{"bits", Kind::kChoice, "2", "2|4|8", "bits of an integer"},
           {"group", Kind::kChoice, "32", "16|32|64",
            "tokens (of keys) and channels (of values) with a common scale"},
           {"residual", Kind::kInteger, "128", "newest tokens",
            "not encoded; a multiple of `group`; of keys, only the remainder of all tokens", 16}},
      .make = [](const Parameters& p) {
        const int bits = std::stoi(p.choice("bits")), group = std::stoi(p.choice("group")),
                  residual = p.integer("residual");
        if (residual % group != 0) {
          throw input_error(
              "kivi: residual: found {}, expected a multiple of the group of {} tokens", residual,
              group);
        }
        return Policies{.codec = std::make_unique<Kivi>(bits, group, residual)};
      }};
}

}  // namespace turnbench
