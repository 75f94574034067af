#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numbers>
#include <vector>

#include "inference/model/dtype.h"
#include "methods/method.h"
#include "methods/parts/packed_integers.h"
#include "methods/parts/random_matrices.h"

namespace turnbench {
namespace {

/// The positive centroids of the scalar quantiser with the least squared error for a standard
/// normal distribution (Lloyd-Max), ascending, by bits; those of 1 and 2 bits as in the paper,
/// section 3.1.
constexpr std::array<std::array<float, 8>, 5> kCentroids = {
    {{},
     {0.7978846f},
     {0.453f, 1.51f},
     {0.2450942f, 0.7560053f, 1.3439093f, 2.1519457f},
     {0.128395f, 0.3880483f, 0.6567591f, 0.9423405f, 1.2562312f, 1.6180464f, 2.0690172f,
      2.7325896f}}};

/// TurboQuant (Zandieh et al., ICLR 2026).  Values, and keys without the sketch: Algorithm 1, a
/// rotated row of norm 1 whose elements are quantised one by one.  Keys with the sketch: Algorithm
/// 2, which spends one bit per element on the signs of a random projection of the error.
class TurboQuant : public Cloned<TurboQuant, GroupCodec> {
 public:
  TurboQuant(int bits, bool sketches, int residual, std::uint64_t seed)
      : bits_(bits),
        sketches_(sketches),
        residual_(residual),
        matrices_(std::make_shared<RandomMatrices>(seed)) {}

  std::size_t row_bytes(KvRow kind, int head_dim) const override {
    const auto dims = static_cast<std::size_t>(head_dim);
    return kHeader + level_bytes(kind, dims) + (has_sketch(kind) ? (dims + 7) / 8 : 0);
  }
  int group(KvRow) const override { return 1; }
  int encoded_rows(KvRow, int tokens) const override { return std::max(0, tokens - residual_); }

  void encode(KvRow kind, MatrixView<const float> rows, std::span<std::byte> out) const override {
    const auto dims = static_cast<std::size_t>(rows.columns);
    const std::span row(rows.row(0), dims);
    const RandomMatrices::OfSize& matrices = matrices_->of(dims);
    std::fill(out.begin(), out.end(), std::byte{0});
    const float length = stored_length(kind, norm(row));
    std::vector<float> unit(dims), rotated(dims);
    for (std::size_t d = 0; d < dims; ++d) unit[d] = length > 0 ? row[d] / length : 0;
    matrices.rotation.multiply(unit, rotated);
    std::byte* stored = out.data() + kHeader;
    for (std::size_t d = 0; d < dims; ++d)
      put_integer(stored, d, level_bits(kind), nearest(kind, rotated[d] * root(dims)));
    write_lengths(kind, length, 0, out);
    if (!has_sketch(kind)) return;
    std::vector<float> error(dims), projected(dims);
    decode_levels(kind, out, length, matrices, error);
    for (std::size_t d = 0; d < dims; ++d) error[d] = row[d] - error[d];
    matrices.projection.multiply(error, projected);
    std::byte* signs = stored + level_bytes(kind, dims);
    for (std::size_t d = 0; d < dims; ++d) put_integer(signs, d, 1, projected[d] < 0 ? 0 : 1);
    write_lengths(kind, length, norm(error), out);
  }

  void decode(KvRow kind, std::span<const std::byte> bytes, MatrixView<float> out) const override {
    const auto dims = static_cast<std::size_t>(out.columns);
    const std::span row(out.row(0), dims);
    const RandomMatrices::OfSize& matrices = matrices_->of(dims);
    const auto [length, of_error] = lengths(kind, bytes);
    decode_levels(kind, bytes, length, matrices, row);
    if (!has_sketch(kind)) return;
    // sqrt(pi / 2) / dims, times the norm of the error
    const float scale =
        static_cast<float>(std::sqrt(std::numbers::pi / 2)) / static_cast<float>(dims) * of_error;
    const std::byte* signs = bytes.data() + kHeader + level_bytes(kind, dims);
    std::vector<std::uint8_t> positive(dims);
    unpack_integers(signs, 1, positive);
    std::vector<float> projected(dims), error(dims);
    for (std::size_t d = 0; d < dims; ++d) projected[d] = positive[d] != 0 ? scale : -scale;
    matrices.projection.multiply_transposed(projected, error);
    for (std::size_t d = 0; d < dims; ++d) row[d] += error[d];
  }

 private:
  static constexpr std::size_t kHeader = sizeof(float);  // norms

  bool has_sketch(KvRow kind) const { return sketches_ && kind != KvRow::kValue; }
  /// Bits of the quantised elements of the rotated row.
  std::size_t level_bits(KvRow kind) const {
    return static_cast<std::size_t>(has_sketch(kind) ? bits_ - 1 : bits_);
  }
  std::size_t level_bytes(KvRow kind, std::size_t dims) const {
    return (dims * level_bits(kind) + 7) / 8;
  }

  static float norm(std::span<const float> x) {
    double squares = 0;
    for (const float value : x) squares += static_cast<double>(value) * value;
    return static_cast<float>(std::sqrt(squares));
  }
  static float root(std::size_t dims) { return std::sqrt(static_cast<float>(dims)); }

  /// With the sketch, the header has two norms in float16; otherwise one in float32.
  float stored_length(KvRow kind, float length) const {
    return has_sketch(kind) ? f16_to_float(float_to_f16(length)) : length;
  }
  void write_lengths(KvRow kind, float length, float of_error, std::span<std::byte> out) const {
    const std::uint16_t both[] = {float_to_f16(length), float_to_f16(of_error)};
    if (has_sketch(kind)) {
      std::memcpy(out.data(), both, kHeader);
    } else {
      std::memcpy(out.data(), &length, kHeader);
    }
  }
  std::pair<float, float> lengths(KvRow kind, std::span<const std::byte> bytes) const {
    std::uint16_t both[2];
    std::memcpy(both, bytes.data(), kHeader);
    if (has_sketch(kind)) return {f16_to_float(both[0]), f16_to_float(both[1])};
    float length = 0;
    std::memcpy(&length, bytes.data(), kHeader);
    return {length, 0};
  }

  /// The centroids' numbers ascend with their values.
  unsigned nearest(KvRow kind, float x) const {
    const std::size_t half = std::size_t{1} << (level_bits(kind) - 1);
    const auto& centroids = kCentroids[level_bits(kind)];
    std::size_t above = 0;  // boundaries between positive centroids below |x|
    while (above + 1 < half && std::abs(x) > (centroids[above] + centroids[above + 1]) / 2) ++above;
    return static_cast<unsigned>(x > 0 ? half + above : half - 1 - above);
  }
  float centroid(KvRow kind, unsigned index) const {
    const unsigned half = 1u << (level_bits(kind) - 1);
    const auto& centroids = kCentroids[level_bits(kind)];
    return index >= half ? centroids[index - half] : -centroids[half - 1 - index];
  }

  /// The row without the sketch's correction.
  void decode_levels(KvRow kind, std::span<const std::byte> bytes, float length,
                     const RandomMatrices::OfSize& matrices, std::span<float> row) const {
    const float scale = length / root(row.size());
    std::array<float, 16> levels;
    for (unsigned i = 0; i < 1u << level_bits(kind); ++i) levels[i] = scale * centroid(kind, i);
    std::vector<std::uint8_t> indices(row.size());
    unpack_integers(bytes.data() + kHeader, level_bits(kind), indices);
    std::vector<float> rotated(row.size());
    for (std::size_t d = 0; d < row.size(); ++d) rotated[d] = levels[indices[d]];
    matrices.rotation.multiply_transposed(rotated, row);
  }

  int bits_;
  bool sketches_;
  int residual_;
  std::shared_ptr<RandomMatrices> matrices_;
};

}  // namespace

/// TurboQuant: a random rotation, then the same scalar quantiser for every element.
MethodInfo turboquant() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "turboquant",
      .summary =
          "stores the elements of randomly rotated keys and values as 2- to 4-bit integers, with "
          "one norm per key and per value",
      .paper =
          "TurboQuant: Online Vector Quantization with Near-optimal Distortion Rate (ICLR 2026)",
      .budget_unit =
          "no budget: every token is kept; head_dim * bits / 8 + 4 bytes per key and per value",
      .deviations =
          "keys are encoded after RoPE; one rotation for all layers and heads; centroids are those "
          "of a normal distribution, to which the elements of a rotated row converge; all elements "
          "have the same number of bits (paper: also more bits for outlier channels); norms of "
          "keys with the sketch are float16, others float32; a prompt reads its own rows as they "
          "are, and those of earlier turns as they are stored; refused with placement=host and "
          "with "
          "evictions in decode steps; attention reads decoded copies, so time is not saved",
      .parameters =
          {{"bits", Kind::kChoice, "3", "2|3|4", "bits per element"},
           {"sketch", Kind::kFlag, "true", "",
            "Algorithm 2 for keys: one of the bits is a sign of a random projection of the "
            "quantisation error; false: Algorithm 1"},
           {"residual", Kind::kInteger, "0", "newest tokens", "not encoded"},
           {"seed", Kind::kInteger, "1", "", "of the random matrices"}},
      .make = [](const Parameters& p) {
        return Policies{.codec = std::make_unique<TurboQuant>(
                            std::stoi(p.choice("bits")), p.flag("sketch"), p.integer("residual"),
                            static_cast<std::uint64_t>(p.integer("seed")))};
      }};
}

}  // namespace turnbench
