#include <cstdint>
#include <cstring>
#include <vector>

#include "inference/model/dtype.h"
#include "methods/method.h"
#include "methods/parts/encoding_time.h"
#include "methods/parts/ggml_blocks.h"
#include "methods/parts/hadamard.h"

namespace turnbench {
namespace {

constexpr std::size_t kLeastRotated = 64;  // elements that a Hadamard matrix rotates

/// Multiplies parts of a row by a Hadamard matrix, which distributes outliers over all elements of
/// a part.  The matrix is its own inverse.
void rotate(KvRow kind, std::span<float> row) {
  if (row.size() % kLeastRotated != 0) return;
  std::size_t part = kLeastRotated;
  while (kind != KvRow::kValue && row.size() % (2 * part) == 0) part *= 2;
  for (std::size_t d = 0; d < row.size(); d += part) multiply_hadamard(row.subspan(d, part));
}

/// Stores keys and values in types of ggml, given by their bits per element.  The type with 16 bits
/// is float16, without blocks and rotation.
class GgmlCache : public Cloned<GgmlCache, RowCodec> {
 public:
  struct Settings {
    int key_bits, value_bits;
    bool rotates;
  };
  explicit GgmlCache(const Settings& settings) : s_(settings) {}

  std::size_t row_bytes(KvRow kind, int head_dim) const override {
    const auto dims = static_cast<std::size_t>(head_dim);
    return bits(kind) == kHalf ? 2 * dims : GgmlBlocks(bits(kind)).row_bytes(dims);
  }

  void encode(KvRow kind, std::span<const float> row, std::span<std::byte> out) const override {
    if (bits(kind) == kHalf) {
      for (std::size_t d = 0; d < row.size(); ++d) {
        const std::uint16_t half = float_to_f16(row[d]);
        std::memcpy(out.data() + 2 * d, &half, sizeof half);
      }
      return;
    }
    std::vector<float> rotated(row.begin(), row.end());
    if (s_.rotates) rotate(kind, rotated);
    GgmlBlocks(bits(kind)).encode(rotated, out.data());
  }

  void decode(KvRow kind, std::span<const std::byte> bytes, std::span<float> out) const override {
    if (bits(kind) == kHalf) {
      for (std::size_t d = 0; d < out.size(); ++d) {
        std::uint16_t half = 0;
        std::memcpy(&half, bytes.data() + 2 * d, sizeof half);
        out[d] = f16_to_float(half);
      }
      return;
    }
    GgmlBlocks(bits(kind)).decode(bytes.data(), out);
    if (s_.rotates) rotate(kind, out);
  }

 private:
  static constexpr int kHalf = 16;

  int bits(KvRow kind) const { return kind == KvRow::kValue ? s_.value_bits : s_.key_bits; }

  Settings s_;
};

/// Bits per element of a type: q8_0, q5_0, q4_0 or f16.
int bits_of(const std::string& type) {
  return type == "f16" ? 16 : type[1] - '0';
}

}  // namespace

/// The quantised caches of llama.cpp: blocks of ggml, after a rotation.
MethodInfo ggml() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "ggml",
      .summary =
          "stores keys and values as 8-, 5- or 4-bit integers, one scale per 32 elements, or "
          "float16",
      .paper =
          "none: llama.cpp, options --cache-type-k and --cache-type-v; rotation: pull request "
          "21038",
      .budget_unit =
          "no budget: every token is kept; bytes per 32 elements: 34 (q8_0), 22 (q5_0), 18 (q4_0), "
          "64 (f16)",
      .deviations =
          "keys are encoded after RoPE; rows are rotated back when they are decoded (llama.cpp: "
          "queries and outputs are rotated), so results differ by rounding; keys are rotated in "
          "parts of the largest power of two that divides head_dim, values in parts of 64; without "
          "effect if head_dim is not a multiple of 64; if it is not a multiple of 32, the last "
          "block of a row is shorter (llama.cpp refuses such models); attention reads decoded "
          "copies, not the integers, so time is not saved",
      .parameters = {{"type", Kind::kChoice, "q8_0", "q8_0|q5_0|q4_0|f16",
                      "block type of ggml: 8, 5 or 4 bits per element; f16: float16"},
                     {"values", Kind::kChoice, "same", "same|q8_0|q5_0|q4_0|f16",
                      "the type of values, if it is another than that of keys"},
                     {"rotate", Kind::kFlag, "true", "",
                      "multiply keys and values by a Hadamard matrix first; not those in f16"},
                     encoding_time_parameter()},
      .make = [](const Parameters& p) {
        const std::string &keys = p.choice("type"), &values = p.choice("values");
        const GgmlCache::Settings settings{bits_of(keys), bits_of(values == "same" ? keys : values),
                                           p.flag("rotate")};
        return Policies{.codec = encoded_in_time(std::make_unique<GgmlCache>(settings), p)};
      }};
}

}  // namespace turnbench
