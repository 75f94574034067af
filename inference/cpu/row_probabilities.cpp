#include <algorithm>
#include <vector>

#include "inference/cpu/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/cpu/row_probabilities.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "inference/cpu/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {

void probabilities(float scale, const KvHeadCache& keys, MatrixView<const float> q,
                   const std::int32_t* positions, int sliding_window, MatrixView<float> out) {
  const int head_dim = keys.layout().head_dim, rows = static_cast<int>(q.rows);
  // Slots that some row sees; later slots cost nothing.
  const int n = keys.lower_bound(*std::max_element(positions, positions + rows) + 1);
  std::vector<float> kt(kTile * head_dim), v(kTile * padded(head_dim));
  std::vector<std::int32_t> at(tiles_of(n) * kTile);
  for (int first = 0; first < n; first += kTile) {
    const Tile tile = pack_tile(keys, nullptr, first, std::min(kTile, n - first), kt.data(),
                                v.data(), at.data() + first);
    int blind = 0;  // leading rows that see no key of this tile
    while (blind < rows && positions[blind] < tile.positions[0]) ++blind;
    product(q.rows_at(blind, rows - blind), {tile.kt, head_dim, kTile},
            out.rows_at(blind, rows - blind).columns_at(first, kTile), false);
  }
  const FloatTag d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const FloatVec scales = hn::Set(d, scale);
  for (int r = 0; r < rows; ++r) {
    float* row = out.row(r);
    const std::int32_t position = positions[r];
    const auto last =
        static_cast<int>(std::upper_bound(at.begin(), at.begin() + n, position) - at.begin());
    int first = 0;
    if (sliding_window > 0) {
      first = static_cast<int>(
          std::upper_bound(at.begin(), at.begin() + n, position - sliding_window) - at.begin());
    }
    // The tiles with keys that the row sees.
    const int begin = first / kTile * kTile, end = tiles_of(last) * kTile;
    std::fill(row, row + begin, 0.0f);
    std::fill(row + end, row + out.columns, 0.0f);
    std::fill(row + begin, row + first, kMasked);
    std::fill(row + last, row + end, kMasked);
    FloatVec tops = hn::Set(d, kMasked);
    for (int i = begin; i < end; i += lanes) tops = hn::Max(tops, hn::LoadU(d, row + i));
    const float top = hn::GetLane(hn::MaxOfLanes(d, tops));
    if (top == kMasked) {
      std::fill(row + begin, row + end, 0.0f);
      continue;
    }
    const FloatVec shift = hn::Set(d, top * scale);
    double sum = 0;
    for (int i = begin; i < end; i += kTile) {
      for (int j = i; j < i + kTile; j += lanes) {
        hn::StoreU(exp_ps(d, hn::MulSub(hn::LoadU(d, row + j), scales, shift)), d, row + j);
      }
      HWY_ALIGN float partial[16];
      for (int j = 0; j < 16; ++j) {
        partial[j] = (row[i + j] + row[i + 16 + j]) + (row[i + 32 + j] + row[i + 48 + j]);
      }
      sum += sum16(partial);
    }
    const FloatVec inverse = hn::Set(d, static_cast<float>(1.0 / sum));
    for (int j = begin; j < end; j += lanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, row + j), inverse), d, row + j);
    }
  }
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench::cpu {

HWY_EXPORT(probabilities);

void row_probabilities(float scale, const KvHeadCache& keys, MatrixView<const float> q,
                       const std::int32_t* positions, int sliding_window, MatrixView<float> out) {
  HWY_DYNAMIC_DISPATCH(probabilities)(scale, keys, q, positions, sliding_window, out);
}

}  // namespace turnbench::cpu
#endif  // HWY_ONCE
