#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "inference/model/dtype.h"
#include "methods/method.h"
#include "methods/parts/encoding_time.h"

namespace turnbench {
namespace {

constexpr std::size_t kBlock = 32;         // elements with a common scale
constexpr std::size_t kLeastRotated = 64;  // elements that a Hadamard matrix rotates

/// Encodes blocks of 32 elements, with a shorter one at the end of a row if necessary: a scale as
/// float16, then one integer per element, as in the blocks block_q8_0, block_q5_0 and block_q4_0 of
/// ggml.
class GgmlBlocks : public Cloned<GgmlBlocks, RowCodec> {
 public:
  GgmlBlocks(int bits, bool rotates) : bits_(bits), rotates_(rotates) {}

  std::size_t row_bytes(int head_dim) const override {
    const auto dims = static_cast<std::size_t>(head_dim), rest = dims % kBlock;
    return dims / kBlock * block_bytes(kBlock) + (rest > 0 ? block_bytes(rest) : 0);
  }

  void encode(KvRow kind, std::span<const float> row, std::span<std::byte> out) const override {
    std::vector<float> rotated(row.begin(), row.end());
    rotate(kind, rotated);
    for (std::size_t d = 0; d < rotated.size(); d += kBlock) {
      const auto block = std::span(rotated).subspan(d, std::min(kBlock, rotated.size() - d));
      encode_block(block, out.data());
      out = out.subspan(block_bytes(block.size()));
    }
  }

  void decode(KvRow kind, std::span<const std::byte> bytes, std::span<float> out) const override {
    for (std::size_t d = 0; d < out.size(); d += kBlock) {
      const auto block = out.subspan(d, std::min(kBlock, out.size() - d));
      decode_block(bytes.data(), block);
      bytes = bytes.subspan(block_bytes(block.size()));
    }
    rotate(kind, out);  // the matrix is its own inverse
  }

 private:
  /// The integers of a block: 8 bits each; or the lower 4 bits of elements j and j + (n + 1) / 2 in
  /// a byte, after the fifth bits of all elements if there are any.
  std::size_t block_bytes(std::size_t elements) const {
    return sizeof(std::uint16_t) + (bits_ == 8 ? elements : high_bytes(elements) + half(elements));
  }
  std::size_t high_bytes(std::size_t elements) const { return bits_ == 5 ? (elements + 7) / 8 : 0; }
  static std::size_t half(std::size_t elements) { return (elements + 1) / 2; }
  /// The integer that represents 0.
  int offset() const { return bits_ == 8 ? 0 : 1 << (bits_ - 1); }

  void encode_block(std::span<const float> block, std::byte* out) const {
    float largest = 0;
    bool is_finite = true;
    for (float x : block) {
      if (std::abs(x) > std::abs(largest)) largest = x;
      is_finite &= std::isfinite(x);
    }
    const float scale =
        bits_ == 8 ? std::abs(largest) / 127 : largest / static_cast<float>(-offset());
    const std::uint16_t stored = float_to_f16(scale);
    // A block that cannot be stored is read back as NaN, which the engine reports.
    is_finite = is_finite && std::isfinite(f16_to_float(stored));
    const std::uint16_t written =
        is_finite ? stored : float_to_f16(std::numeric_limits<float>::quiet_NaN());
    std::memcpy(out, &written, sizeof written);
    const float inverse = is_finite && f16_to_float(stored) != 0 ? 1 / scale : 0;
    std::byte* integers = out + sizeof stored;
    std::fill_n(integers, block_bytes(block.size()) - sizeof stored, std::byte{0});
    for (std::size_t j = 0; j < block.size(); ++j)
      put(integers, block.size(), j, is_finite ? rounded(block[j] * inverse) : 0);
  }

  /// Rounds a multiple of the scale to nearest, ties away from 0; with an offset, ties upwards.
  unsigned rounded(float multiple) const {
    if (bits_ == 8) return static_cast<std::uint8_t>(static_cast<int>(std::round(multiple)));
    const int largest = 2 * offset() - 1;
    const float shifted = multiple + (static_cast<float>(offset()) + 0.5f);
    return static_cast<unsigned>(std::min(largest, static_cast<int>(shifted)));
  }

  void put(std::byte* integers, std::size_t elements, std::size_t j, unsigned value) const {
    if (bits_ == 8) {
      integers[j] = static_cast<std::byte>(value);
      return;
    }
    if (bits_ == 5) integers[j / 8] |= static_cast<std::byte>((value >> 4) << j % 8);
    const std::size_t at = high_bytes(elements) + j % half(elements);
    integers[at] |= static_cast<std::byte>((value & 15) << (j < half(elements) ? 0 : 4));
  }

  void decode_block(const std::byte* bytes, std::span<float> out) const {
    std::uint16_t stored = 0;
    std::memcpy(&stored, bytes, sizeof stored);
    const float scale = f16_to_float(stored);
    const std::byte* integers = bytes + sizeof stored;
    if (bits_ == 8) {
      for (std::size_t j = 0; j < out.size(); ++j)
        out[j] = scale * static_cast<float>(static_cast<std::int8_t>(integers[j]));
      return;
    }
    const std::byte* lower = integers + high_bytes(out.size());
    const std::size_t n = half(out.size());
    std::array<int, kBlock> values;
    for (std::size_t j = 0; j < n; ++j) values[j] = std::to_integer<int>(lower[j]) & 15;
    for (std::size_t j = n; j < out.size(); ++j)
      values[j] = std::to_integer<int>(lower[j - n]) >> 4;
    for (std::size_t j = 0; bits_ == 5 && j < out.size(); ++j)
      values[j] |= (std::to_integer<int>(integers[j / 8]) >> j % 8 & 1) << 4;
    for (std::size_t j = 0; j < out.size(); ++j)
      out[j] = scale * static_cast<float>(values[j] - offset());
  }

  /// (a, b) -> (a + b, a - b), for vectors of `count` elements.
  static void add_and_subtract(float* __restrict a, float* __restrict b, std::size_t count) {
    for (std::size_t d = 0; d < count; ++d) {
      const float sum = a[d] + b[d];
      b[d] = a[d] - b[d];
      a[d] = sum;
    }
  }

  /// Multiplies parts of a row by a Hadamard matrix, which distributes outliers over all elements
  /// of a part.
  void rotate(KvRow kind, std::span<float> row) const {
    if (!rotates_ || row.size() % kLeastRotated != 0) return;
    std::size_t part = kLeastRotated;
    while (kind != KvRow::kValue && row.size() % (2 * part) == 0) part *= 2;
    for (std::size_t d = 0; d < row.size(); d += part) multiply_hadamard(row.subspan(d, part));
  }

  /// The normalised matrix of Sylvester's construction, by the fast Walsh-Hadamard transform.
  static void multiply_hadamard(std::span<float> x) {
    for (std::size_t d = 0; d < x.size(); d += 4) {  // the first two steps
      const float a = x[d] + x[d + 1], b = x[d] - x[d + 1], c = x[d + 2] + x[d + 3],
                  e = x[d + 2] - x[d + 3];
      x[d] = a + c;
      x[d + 1] = b + e;
      x[d + 2] = a - c;
      x[d + 3] = b - e;
    }
    for (std::size_t step = 4; step < x.size(); step *= 2) {
      for (std::size_t first = 0; first < x.size(); first += 2 * step)
        add_and_subtract(x.data() + first, x.data() + first + step, step);
    }
    const float norm = 1 / std::sqrt(static_cast<float>(x.size()));
    for (float& value : x) value *= norm;
  }

  int bits_;
  bool rotates_;
};

}  // namespace

/// The quantised caches of llama.cpp: blocks of ggml, after a rotation.
MethodInfo ggml() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "ggml",
      .summary = "stores keys and values as 8-, 5- or 4-bit integers, one scale per 32 elements",
      .paper =
          "none: llama.cpp, options --cache-type-k and --cache-type-v; rotation: pull request "
          "21038",
      .budget_unit =
          "no budget: every token is kept; 34 (q8_0), 22 (q5_0) or 18 (q4_0) bytes per 32 elements",
      .deviations =
          "keys are encoded after RoPE; keys and values have the same type; rows are rotated back "
          "when they are decoded (llama.cpp: queries and outputs are rotated), so results differ "
          "by rounding; keys are rotated in parts of the largest power of two that divides "
          "head_dim, values in parts of 64; without effect if head_dim is not a multiple of 64; if "
          "it is not a multiple of 32, the last block of a row is shorter (llama.cpp refuses such "
          "models); attention reads decoded copies, not the integers, so time is not saved",
      .parameters = {{"type", Kind::kChoice, "q8_0", "q8_0|q5_0|q4_0",
                      "block type of ggml: 8, 5 or 4 bits per element"},
                     {"rotate", Kind::kFlag, "true", "",
                      "multiply keys and values by a Hadamard matrix first"},
                     encoding_time_parameter()},
      .make = [](const Parameters& p) {
        const int bits = p.choice("type")[1] - '0';
        return Policies{
            .codec = encoded_in_time(std::make_unique<GgmlBlocks>(bits, p.flag("rotate")), p)};
      }};
}

}  // namespace turnbench
