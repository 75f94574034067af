#include "inference/cpu/bf16_unit.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <random>

#include "inference/cpu/amx.h"
#include "inference/cpu/bf16_dot.h"
#include "inference/cpu/bf16_linear.h"

namespace turnbench::cpu {
namespace {

/// Denormals count as zeros.
float flushed(float x) {
  return std::fabs(x) < FLT_MIN ? std::copysign(0.0f, x) : x;
}

/// Whether a product of 16 rows, 16 outputs and two blocks of inputs has the bits of its
/// definition: for ordinary factors in half of the rows, for denormal products in the others.
bool has_the_sums(Bf16Unit unit) {
  constexpr std::int64_t kRows = 16, kInputs = 2 * kBlockInputs;
  std::vector<float> x(kRows * kInputs), w(kPanelOutputs * kInputs), y(kRows * kPanelOutputs);
  std::mt19937 random(1);
  const auto draw = [&](std::uint32_t least_exponent) {
    const auto bits = static_cast<std::uint32_t>(random());
    return bf16_to_float(
        static_cast<std::uint16_t>((bits & 0x807F) | (least_exponent + (bits >> 16) % 24) << 7));
  };
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = draw(i < x.size() / 2 ? 116 : 0);
  for (float& weight : w) weight = draw(116);
  PairedMatrix matrix = make_paired(kPanelOutputs, kInputs);
  pack_rows(matrix, 0, w.data(), DType::kF32, kPanelOutputs);
  ThreadPool pool(1);
  Scratch scratch;
  linear_bf16(pool, MatrixView<const float>(x.data(), kRows, kInputs), matrix.view(), nullptr,
              MatrixView(y.data(), kRows, kPanelOutputs), scratch, unit);
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t o = 0; o < kPanelOutputs; ++o) {
      float sum = 0;
      for (std::int64_t block = 0; block < kInputs; block += kBlockInputs) {
        float chain[2] = {0, 0};
        for (std::int64_t i = block; i < block + kBlockInputs; ++i) {
          chain[i % 2] =
              flushed(std::fma(flushed(x[r * kInputs + i]), w[o * kInputs + i], chain[i % 2]));
        }
        sum = flushed(sum + flushed(chain[0] + chain[1]));
      }
      if (std::bit_cast<std::uint32_t>(sum) !=
          std::bit_cast<std::uint32_t>(y[r * kPanelOutputs + o]))
        return false;
    }
  }
  return true;
}

struct Units {
  std::vector<Bf16Unit> usable, deviating;
  std::atomic<Bf16Unit> used{Bf16Unit::kMultiplyAdd};

  Units() {
    if (amx::available()) add(Bf16Unit::kTiles);
    const bool dots = bf16_dot::available();
    if (dots && bf16_dot::is_fast()) add(Bf16Unit::kDotProduct);
    usable.push_back(Bf16Unit::kMultiplyAdd);
    used = usable.front();
    if (dots && !bf16_dot::is_fast()) add(Bf16Unit::kDotProduct);
  }

  void add(Bf16Unit unit) { (has_the_sums(unit) ? usable : deviating).push_back(unit); }
};

Units& units() {
  static Units out;
  return out;
}

}  // namespace

const char* name_of(Bf16Unit unit) {
  switch (unit) {
    case Bf16Unit::kTiles:
      return "AMX";
    case Bf16Unit::kDotProduct:
      return "AVX512-BF16";
    case Bf16Unit::kMultiplyAdd:
      break;
  }
  return "";
}

const std::vector<Bf16Unit>& bf16_units() {
  return units().usable;
}

const std::vector<Bf16Unit>& deviating_bf16_units() {
  return units().deviating;
}

Bf16Unit bf16_unit() {
  return units().used;
}

void use_bf16_unit(Bf16Unit unit) {
  units().used = unit;
}

}  // namespace turnbench::cpu
