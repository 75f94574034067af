// Tiles of 64 keys and values: packing, and the online softmax of query rows over them.  Included
// once per instruction set.

#if defined(TURNBENCH_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TURNBENCH_ATTENTION_TILE_INL_H_
#undef TURNBENCH_ATTENTION_TILE_INL_H_
#else
#define TURNBENCH_ATTENTION_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "inference/cpu/attention_state.h"
#include "inference/cpu/micro_kernel-inl.h"
#include "inference/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE float widen(float x) {
  return x;
}
HWY_INLINE float widen(hwy::bfloat16_t x) {
  return bf16_to_float(std::bit_cast<std::uint16_t>(x));
}
HWY_INLINE float widen(hwy::float16_t x) {
  return f16_to_float(std::bit_cast<std::uint16_t>(x));
}
/// Two neighbouring bf16 elements of a row, which are moved together.
using HalfPair = std::uint32_t;
HWY_INLINE float widen(HalfPair x) {
  return std::bit_cast<float>(x);
}

#if HWY_TARGET != HWY_SCALAR
using Quad = hn::FixedTag<float, 4>;
HWY_INLINE hn::Vec<Quad> load_quad(const float* p) {
  return hn::LoadU(Quad(), p);
}
HWY_INLINE hn::Vec<Quad> load_quad(const hwy::bfloat16_t* p) {
  return hn::PromoteTo(Quad(), hn::LoadU(hn::FixedTag<hwy::bfloat16_t, 4>(), p));
}
HWY_INLINE hn::Vec<Quad> load_quad(const hwy::float16_t* p) {
  return hn::PromoteTo(Quad(), hn::LoadU(hn::FixedTag<hwy::float16_t, 4>(), p));
}
HWY_INLINE hn::Vec<Quad> load_quad(const HalfPair* p) {
  return hn::BitCast(Quad(), hn::LoadU(hn::FixedTag<HalfPair, 4>(), p));
}

/// A vector whose 128-bit block b holds columns [column, column + 4) of row 4 b + i.
template <typename T>
HWY_INLINE FloatVec blocks_of_rows(const T* const* rows, int i, std::size_t column) {
#if HWY_MAX_BYTES == 64
  const hn::Half<FloatTag> dh;
  return hn::Combine(
      FloatTag(),
      hn::Combine(dh, load_quad(rows[12 + i] + column), load_quad(rows[8 + i] + column)),
      hn::Combine(dh, load_quad(rows[4 + i] + column), load_quad(rows[i] + column)));
#elif HWY_MAX_BYTES == 32
  return hn::Combine(FloatTag(), load_quad(rows[4 + i] + column), load_quad(rows[i] + column));
#else
  return load_quad(rows[i] + column);
#endif
}
#endif  // HWY_TARGET != HWY_SCALAR

/// kt[d, j] = rows[j][d], widened to float.  rows: 64 rows of `columns` elements; kt: [columns, 64]
/// or, with other strides, 16 keys at a time.  stride, stride16: distance of columns, and of 16
/// keys.
template <typename T>
void transpose_keys(const T* const* rows, std::size_t columns, float* HWY_RESTRICT kt,
                    std::size_t stride = kTile, std::size_t stride16 = 16) {
  const std::size_t lanes = hn::Lanes(FloatTag());
  for (std::size_t j = 0; j < kTile; j += lanes) {
    float* to = kt + j / 16 * stride16 + j % 16;
    std::size_t c = 0;
#if HWY_TARGET != HWY_SCALAR
    const FloatTag d;
    for (; c + 4 <= columns; c += 4) {
      const FloatVec a0 = blocks_of_rows(rows + j, 0, c), a1 = blocks_of_rows(rows + j, 1, c);
      const FloatVec a2 = blocks_of_rows(rows + j, 2, c), a3 = blocks_of_rows(rows + j, 3, c);
      const FloatVec t0 = hn::InterleaveLower(d, a0, a2), t1 = hn::InterleaveLower(d, a1, a3);
      const FloatVec t2 = hn::InterleaveUpper(d, a0, a2), t3 = hn::InterleaveUpper(d, a1, a3);
      hn::StoreU(hn::InterleaveLower(d, t0, t1), d, to + (c + 0) * stride);
      hn::StoreU(hn::InterleaveUpper(d, t0, t1), d, to + (c + 1) * stride);
      hn::StoreU(hn::InterleaveLower(d, t2, t3), d, to + (c + 2) * stride);
      hn::StoreU(hn::InterleaveUpper(d, t2, t3), d, to + (c + 3) * stride);
    }
#endif
    for (; c < columns; ++c) {
      for (std::size_t i = 0; i < lanes; ++i) to[c * stride + i] = widen(rows[j + i][c]);
    }
  }
}

/// Widens `count` rows of head_dim elements to float, padded with zeros.  v: [count,
/// padded(head_dim)].
template <typename T>
void widen_values(const T* const* rows, int count, int head_dim, float* HWY_RESTRICT v) {
  const FloatTag d;
  const int lanes = static_cast<int>(hn::Lanes(d)), width = padded(head_dim);
  for (int j = 0; j < count; ++j, v += width) {
    int c = 0;
    for (; c + lanes <= head_dim; c += lanes) hn::StoreU(load_wide(d, rows[j] + c), d, v + c);
    for (; c < head_dim; ++c) v[c] = widen(rows[j][c]);
    for (; c < width; ++c) v[c] = 0;
  }
}

/// Keys as products of bf16 read them.  rows: 64; to: [64, head_dim] as in a PairedView.
inline PairedView pair_keys(const hwy::bfloat16_t* const* rows, int head_dim,
                            float* HWY_RESTRICT to) {
  const PairedView out{reinterpret_cast<const std::uint16_t*>(to), kTile, head_dim};
  const std::int64_t pairs = head_dim / 2, panel = out.panel_size() / 2;
  const HalfPair* halves[kTile];
  for (int j = 0; j < kTile; ++j) halves[j] = reinterpret_cast<const HalfPair*>(rows[j]);
  transpose_keys(halves, pairs, to, kPanelOutputs, panel);
  for (std::int64_t p = 0; p < out.panels(); ++p)
    std::fill(to + p * panel + pairs * kPanelOutputs, to + (p + 1) * panel, 0.0f);
  return out;
}

/// Values as products of bf16 read them.  rows: 64; to: [padded(head_dim), 64] as in a PairedView.
inline PairedView pair_values(const hwy::bfloat16_t* const* rows, int head_dim,
                              float* HWY_RESTRICT to) {
  const PairedView out{reinterpret_cast<const std::uint16_t*>(to), padded(head_dim), kTile};
  const hn::Rebind<HalfPair, FloatTag> d;
  const hn::Rebind<std::uint16_t, FloatTag> dh;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  for (int j = 0; j < kTile; j += 2) {
    const auto *even = reinterpret_cast<const std::uint16_t*>(rows[j]),
               *odd = reinterpret_cast<const std::uint16_t*>(rows[j + 1]);
    const auto at = [&](int c) {
      return reinterpret_cast<HalfPair*>(to) + c / kPanelOutputs * (out.panel_size() / 2) +
             j / 2 * kPanelOutputs + c % kPanelOutputs;
    };
    int c = 0;
    for (; c + lanes <= head_dim; c += lanes) {
      const auto low = hn::PromoteTo(d, hn::LoadU(dh, even + c)),
                 high = hn::PromoteTo(d, hn::LoadU(dh, odd + c));
      hn::StoreU(hn::Or(low, hn::ShiftLeft<16>(high)), d, at(c));
    }
    for (; c < head_dim; ++c) *at(c) = even[c] | HalfPair{odd[c]} << 16;
    for (; c < padded(head_dim); ++c) *at(c) = 0;
  }
  return out;
}

/// The rows of a tile: the slots slots[0..count) of a set, or if `slots` is null [first, first +
/// count) with `first` a multiple of 64.  Rows beyond `count` repeat the last one.
template <typename T>
struct RowAddresses {
  const T *keys[kTile], *values[kTile];

  /// Also sets the positions [64].
  RowAddresses(const KvHeadCache& set, const std::int32_t* slots, int first, int count,
               std::int32_t* positions) {
    const ElementLayout& layout = set.layout();
    const auto pages = set.pages();
    for (int j = 0; j < kTile; ++j) {
      const int slot =
          slots == nullptr ? first + std::min(j, count - 1) : slots[std::min(j, count - 1)];
      const std::byte* page = pages[slot / kTile]->data;
      const std::size_t row = static_cast<std::size_t>(slot % kTile) * layout.row_bytes();
      keys[j] = reinterpret_cast<const T*>(page + row);
      values[j] = reinterpret_cast<const T*>(page + layout.value_offset() + row);
      positions[j] =
          reinterpret_cast<const std::int32_t*>(page + layout.position_offset())[slot % kTile];
    }
  }
};

/// Packs the slots of a tile; see RowAddresses.  The set's elements must be bf16.  Scratch: keys,
/// values, positions as in a packed tile.
inline Bf16Tile pack_bf16_tile(const KvHeadCache& set, const std::int32_t* slots, int first,
                               int count, float* keys, float* values, std::int32_t* positions) {
  const int head_dim = set.layout().head_dim;
  const RowAddresses<hwy::bfloat16_t> rows(set, slots, first, count, positions);
  return {pair_keys(rows.keys, head_dim, keys), pair_values(rows.values, head_dim, values),
          positions, count};
}

/// Packs the slots of a tile; see RowAddresses.  Scratch: kt [head_dim, 64], v [64,
/// padded(head_dim)], positions [64].
template <typename T>
Tile pack_tile_typed(const KvHeadCache& set, const std::int32_t* slots, int first, int count,
                     float* kt, float* v, std::int32_t* positions) {
  const PageLayout& layout = set.layout();
  const RowAddresses<T> rows(set, slots, first, count, positions);
  const T* const* values = rows.values;
  transpose_keys(rows.keys, layout.head_dim, kt);
  Tile tile{kt, {v, count, padded(layout.head_dim)}, positions, count};
  if constexpr (std::is_same_v<T, float>) {
    if (slots == nullptr && layout.head_dim % 16 == 0) {  // the page itself is used
      tile.v.data = values[0];
      return tile;
    }
  }
  widen_values(values, count, layout.head_dim, v);
  return tile;
}

inline Tile pack_tile(const KvHeadCache& set, const std::int32_t* slots, int first, int count,
                      float* kt, float* v, std::int32_t* positions) {
  switch (set.layout().dtype) {
    case DType::kF32:
      return pack_tile_typed<float>(set, slots, first, count, kt, v, positions);
    case DType::kF16:
      return pack_tile_typed<hwy::float16_t>(set, slots, first, count, kt, v, positions);
    case DType::kBF16:
      return pack_tile_typed<hwy::bfloat16_t>(set, slots, first, count, kt, v, positions);
  }
  return {};
}

/// Tile `t` of a set that is packed for products of float32.
inline Tile shared_tile(const KvHeadCache& set, const PackedSet& packed, int t) {
  const PageLayout& layout = set.layout();
  const std::int64_t i = std::int64_t{t} * kTile;
  const int count = std::min(kTile, set.size() - t * kTile), width = padded(layout.head_dim);
  const bool in_page = layout.dtype == DType::kF32 && layout.head_dim % 16 == 0;
  const float* v =
      in_page ? reinterpret_cast<const float*>(set.pages()[t]->data + layout.value_offset())
              : packed.values + i * width;
  return {packed.keys + i * layout.head_dim, {v, count, width}, packed.positions + i, count};
}

/// Tile `t` of a set that is packed for products of bf16.
inline Bf16Tile shared_bf16_tile(const KvHeadCache& set, const PackedSet& packed, int t) {
  const int head_dim = set.layout().head_dim;
  const auto halves = [t](const float* all, std::int64_t floats) {
    return reinterpret_cast<const std::uint16_t*>(all + t * floats);
  };
  return {
      {halves(packed.keys, tile_key_floats(head_dim, Factors::kBF16)), kTile, head_dim},
      {halves(packed.values, tile_value_floats(head_dim, Factors::kBF16)), padded(head_dim), kTile},
      packed.positions + std::int64_t{t} * kTile,
      std::min(kTile, set.size() - t * kTile)};
}

/// A strip of rows q [rows, head_dim] for products of bf16; its memory comes from `bump`.
inline Bf16Strip bf16_strip(MatrixView<const float> q, const std::int32_t* positions,
                            BumpAllocator& bump) {
  const Bf16Unit unit = RoundedRows::unit_for(q.rows, bf16_unit());
  const auto rounded = [&](std::int64_t columns) {
    return RoundedRows{unit, bump.floats(RoundedRows::floats(q.rows, columns, unit)), columns};
  };
  const Bf16Strip out{rounded(q.columns), q.rows, positions, rounded(kTile)};
  out.q.set(q);
  return out;
}

/// s = q k^T.  s: [rows, 64].
HWY_INLINE void tile_scores(const Strip& strip, const Tile& tile, float* s) {
  const std::int64_t columns = padded(tile.count);
  product(strip.q, {tile.kt, strip.q.columns, columns, kTile}, {s, strip.rows(), columns, kTile},
          false);
}
HWY_INLINE void tile_scores(const Bf16Strip& strip, const Bf16Tile& tile, float* s) {
  multiply({strip.q, tile.keys, 0, tile.keys.panels(), {s, strip.rows(), kTile, kTile}});
}

/// acc += weights v.  weights: [rows, 64]; acc: [rows, padded(head_dim)].
HWY_INLINE void add_values(const Strip& strip, const Tile& tile, const float* weights,
                           MatrixView<float> acc) {
  product({weights, strip.rows(), tile.count, kTile}, tile.v, acc, true);
}
HWY_INLINE void add_values(const Bf16Strip& strip, const Bf16Tile& tile, const float* weights,
                           MatrixView<float> acc) {
  strip.weights.set({weights, strip.rows(), kTile});
  multiply({strip.weights, tile.values, 0, tile.values.panels(), acc, true});
}

/// max(m, scale * s[j]) over the scores s [64] of one row.
HWY_INLINE float new_maximum(float scale, const float* HWY_RESTRICT s, float m) {
  const FloatTag d;
  const std::size_t lanes = hn::Lanes(d);
  FloatVec top = hn::Set(d, kMasked);
  for (std::size_t i = 0; i < kTile; i += lanes) top = hn::Max(top, hn::LoadU(d, s + i));
  return std::max(m, hn::GetLane(hn::MaxOfLanes(d, top)) * scale);
}

/// s[j] = exp(scale * s[j] - shift) for the scores s [64] of a row.  Returns their sum, added in 16
/// chains and then as sum16 does.
HWY_INLINE float exponentials(float scale, float shift, float* HWY_RESTRICT s) {
  constexpr std::size_t kLanes = HWY_LANES(float), kSums = 16 / kLanes;
  const FloatTag d;
  const FloatVec scales = hn::Set(d, scale), shifts = hn::Set(d, shift);
  FloatVec sums[kSums];
  for (std::size_t i = 0; i < kTile; i += 16) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kSums; ++v) {
      float* at = s + i + v * kLanes;
      const FloatVec e = exp_ps(d, hn::MulSub(hn::LoadU(d, at), scales, shifts));
      hn::StoreU(e, d, at);
      sums[v] = i == 0 ? e : hn::Add(sums[v], e);
    }
  }
  HWY_ALIGN float partial[16];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < kSums; ++v) hn::Store(sums[v], d, partial + v * kLanes);
  return sum16(partial);
}

/// Turns the scores s [64] of one row into weights relative to the new maximum `next`, and updates
/// the row's state m, l and acc [width].
HWY_INLINE void softmax_row(float scale, float next, float* HWY_RESTRICT s, float& m, float& l,
                            float* HWY_RESTRICT acc, std::size_t width) {
  if (next == kMasked) {  // no key is visible so far
    std::fill_n(s, kTile, 0.0f);
    return;
  }
  const float shrink = m == next ? 1.0f : m == kMasked ? 0.0f : exp_one(m - next);
  l = l * shrink + exponentials(scale, next, s);
  m = next;
  if (shrink != 1.0f) {
    const FloatTag d;
    const FloatVec factor = hn::Set(d, shrink);
    for (std::size_t c = 0; c < width; c += hn::Lanes(d)) {
      hn::StoreU(hn::Mul(hn::LoadU(d, acc + c), factor), d, acc + c);
    }
  }
}

/// Adds the attention of a strip to one tile to rows [first_row, first_row + strip.rows()) of the
/// state.  Causality and the window always apply; if `ask` is true, visible(position of row,
/// position of key) decides about the remaining pairs.  s: scratch [rows, 64].
template <typename AnyStrip, typename AnyTile, typename Visible>
HWY_INLINE void attend_tile(const AnyStrip& strip, const AnyTile& tile, float scale,
                            int sliding_window, bool ask, const Visible& visible, float* s,
                            const SoftmaxState& state, std::int64_t first_row) {
  const std::int64_t rows = strip.rows();
  tile_scores(strip, tile, s);
  const std::int32_t* end = tile.positions + tile.count;
  float maximum[kStripRows];
  for (std::int64_t r = 0; r < rows; ++r) {  // all maxima first: each is a long chain
    float* row = s + r * kTile;
    const std::int32_t at = strip.positions[r];
    std::int64_t first = 0, last = tile.count;  // keys left by causality and the window
    if (end[-1] > at) last = std::upper_bound(tile.positions, end, at) - tile.positions;
    if (sliding_window > 0 && tile.positions[0] <= at - sliding_window)
      first = std::upper_bound(tile.positions, end, at - sliding_window) - tile.positions;
    std::fill(row, row + first, kMasked);
    std::fill(row + last, row + kTile, kMasked);
    for (std::int64_t j = first; ask && j < last; ++j) {
      if (!visible(at, tile.positions[j])) row[j] = kMasked;
    }
    maximum[r] = new_maximum(scale, row, state.m[first_row + r]);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t i = first_row + r;
    softmax_row(scale, maximum[r], s + r * kTile, state.m[i], state.l[i], state.acc.row(i),
                state.acc.columns);
  }
  add_values(strip, tile, s, state.acc.rows_at(first_row, rows));
}

/// Merges the state of a segment into the total of the segments before it, row by row.
HWY_INLINE void merge_state(const SoftmaxState& total, const SoftmaxState& part) {
  const FloatTag d;
  const std::int64_t lanes = hn::Lanes(d), width = total.acc.columns;
  for (std::int64_t i = 0; i < total.acc.rows; ++i) {
    if (part.m[i] == kMasked) continue;
    const float next = std::max(total.m[i], part.m[i]);
    const float a = total.m[i] == kMasked ? 0.0f : exp_one(total.m[i] - next);
    const float b = exp_one(part.m[i] - next);
    total.l[i] = total.l[i] * a + part.l[i] * b;
    total.m[i] = next;
    const FloatVec av = hn::Set(d, a), bv = hn::Set(d, b);
    float* to = total.acc.row(i);
    const float* from = part.acc.row(i);
    for (std::int64_t c = 0; c < width; c += lanes) {
      hn::StoreU(hn::MulAdd(hn::LoadU(d, from + c), bv, hn::Mul(hn::LoadU(d, to + c), av)), d,
                 to + c);
    }
  }
}

/// Writes the results of the state's rows from `first` on: out = acc / l, lse = m + ln l.  out:
/// [rows, head_dim]; lse: [rows, 1], or null.
inline void write_rows(const SoftmaxState& state, std::int64_t first, MatrixView<float> out,
                       MatrixView<float> lse) {
  for (std::int64_t r = 0; r < out.rows; ++r) {
    const std::int64_t i = first + r;
    const float inverse = state.l[i] > 0 ? 1.0f / state.l[i] : 0.0f;
    const float* from = state.acc.row(i);
    float* to = out.row(r);
    for (std::int64_t c = 0; c < out.columns; ++c) to[c] = from[c] * inverse;
    if (lse.data != nullptr) lse(r, 0) = state.m[i] + std::log(state.l[i]);
  }
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
