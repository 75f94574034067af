#include "methods/parts/nearest_centroid.h"

#include <algorithm>
#include <cassert>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "methods/parts/nearest_centroid.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace turnbench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using CentroidTag = hn::CappedTag<float, 16>;
using CentroidVec = hn::Vec<CentroidTag>;

// Rows, and vectors of centroids, whose sums stay in registers.
constexpr int kTileRows = 4, kTileVecs = 2;

/// Sums of kRows rows over kTileVecs vectors of a panel's centroids, `at` being the first of them:
/// squared distances, or negative products.  Without fused multiply-adds, which not every machine
/// has.
template <Nearness kNearness, int kRows>
HWY_INLINE void tile_sums(MatrixView<const float> rows, const float* at,
                          CentroidVec (&sums)[kRows][kTileVecs]) {
  const CentroidTag d;
  const std::int64_t lanes = hn::Lanes(d);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kTileVecs; ++v) sums[r][v] = hn::LoadU(d, at + v * lanes);
  }
  for (std::int64_t i = 0; i < rows.columns; ++i) {
    at += CentroidTable::kPanel;
    CentroidVec centroids[kTileVecs];
#pragma GCC unroll 8
    for (int v = 0; v < kTileVecs; ++v) centroids[v] = hn::LoadU(d, at + v * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const CentroidVec x = hn::Set(d, rows(r, i));
#pragma GCC unroll 8
      for (int v = 0; v < kTileVecs; ++v) {
        if constexpr (kNearness == Nearness::kDistance) {
          const CentroidVec difference = hn::Sub(x, centroids[v]);
          sums[r][v] = hn::Add(sums[r][v], hn::Mul(difference, difference));
        } else {
          sums[r][v] = hn::Sub(sums[r][v], hn::Mul(x, centroids[v]));
        }
      }
    }
  }
}

/// Labels of kRows rows.  Each lane keeps the first minimal sum of its centroids; ties between
/// lanes go to the lowest centroid.
template <Nearness kNearness, int kRows>
HWY_INLINE void label_tile(MatrixView<const float> rows, const CentroidTable& table,
                           std::int32_t* labels) {
  const CentroidTag d;
  const hn::RebindToSigned<CentroidTag> di;
  const std::int64_t lanes = hn::Lanes(d), step = kTileVecs * lanes;
  CentroidVec least[kRows];
  hn::Vec<decltype(di)> where[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    least[r] = hn::Set(d, std::numeric_limits<float>::infinity());
    where[r] = hn::Iota(di, 0);
  }
  for (std::int64_t p = 0; p < table.panels(); ++p) {
    for (std::int64_t first = 0; first < CentroidTable::kPanel; first += step) {
      CentroidVec sums[kRows][kTileVecs];
      tile_sums<kNearness, kRows>(rows, table.panel(p) + first, sums);
#pragma GCC unroll 8
      for (int v = 0; v < kTileVecs; ++v) {
        const auto index = p * CentroidTable::kPanel + first + v * lanes;
        const auto indices = hn::Iota(di, static_cast<std::int32_t>(index));
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const auto less = hn::Lt(sums[r][v], least[r]);
          least[r] = hn::IfThenElse(less, sums[r][v], least[r]);
          where[r] = hn::IfThenElse(hn::RebindMask(di, less), indices, where[r]);
        }
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    HWY_ALIGN float sums[16];
    HWY_ALIGN std::int32_t indices[16];
    hn::StoreU(least[r], d, sums);
    hn::StoreU(where[r], di, indices);
    std::int64_t best = 0;
    for (std::int64_t l = 1; l < lanes; ++l) {
      if (sums[l] < sums[best] || (sums[l] == sums[best] && indices[l] < indices[best])) best = l;
    }
    labels[r] = indices[best];
  }
}

template <Nearness kNearness>
void label_rows(MatrixView<const float> rows, const CentroidTable& table, std::int32_t* labels) {
  std::int64_t r = 0;
  for (; r + kTileRows <= rows.rows; r += kTileRows)
    label_tile<kNearness, kTileRows>(rows.rows_at(r, kTileRows), table, labels + r);
  for (; r < rows.rows; ++r) label_tile<kNearness, 1>(rows.rows_at(r, 1), table, labels + r);
}

void label_by_distance(MatrixView<const float> rows, const CentroidTable& table,
                       std::int32_t* labels) {
  label_rows<Nearness::kDistance>(rows, table, labels);
}

void label_by_product(MatrixView<const float> rows, const CentroidTable& table,
                      std::int32_t* labels) {
  label_rows<Nearness::kProduct>(rows, table, labels);
}

}  // namespace turnbench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench {

HWY_EXPORT(label_by_distance);
HWY_EXPORT(label_by_product);

CentroidTable::CentroidTable(MatrixView<const float> centroids)
    : count_(centroids.rows), dim_(centroids.columns) {
  values_.assign(static_cast<std::size_t>(panels() * (1 + dim_) * kPanel), 0);
  for (std::int64_t c = 0; c < panels() * kPanel; ++c) {
    float* to = values_.data() + c / kPanel * (1 + dim_) * kPanel + c % kPanel;
    if (c >= count_) {
      *to = std::numeric_limits<float>::infinity();
      continue;
    }
    for (std::int64_t i = 0; i < dim_; ++i) to[(1 + i) * kPanel] = centroids(c, i);
  }
}

void nearest_centroids(MatrixView<const float> rows, const CentroidTable& table, Nearness nearness,
                       std::span<std::int32_t> labels) {
  assert(rows.columns == table.dim());
  assert(rows.rows == static_cast<std::int64_t>(labels.size()));
  if (nearness == Nearness::kDistance) {
    HWY_DYNAMIC_DISPATCH(label_by_distance)(rows, table, labels.data());
  } else {
    HWY_DYNAMIC_DISPATCH(label_by_product)(rows, table, labels.data());
  }
}

}  // namespace turnbench
#endif  // HWY_ONCE
