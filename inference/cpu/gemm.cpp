#include "inference/cpu/gemm.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/cpu/gemm.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "inference/cpu/micro_kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {

// The depth of a block of the inner dimension (a 6-row tile of x in the first-level cache, a panel
// in the second), and the minimal number of rows for which widening a 16-bit panel once pays off.
constexpr std::int64_t kDepth = 896, kWidenRows = 24;
// Prefetch distance in bytes of each stream of a single row's product: hardware prefetching alone
// reaches only 67 to 85% of the bandwidth with four streams, instead of 89 to 98%.
constexpr std::size_t kFetchAhead = 2048;

std::size_t panel_width() {
  return kPanelVecs * hn::Lanes(FloatTag());
}

/// One row times kPanels whole panels at once: enough independent chains to hide the latency of the
/// multiply-add and to keep several memory streams open.  Near their end, the panels from `next` on
/// are prefetched.
template <int kPanels, typename Weight>
HWY_INLINE void one_row(std::size_t in, const float* x, const Weight* w, const Weight* next,
                        float* y) {
  constexpr std::size_t lanes = HWY_LANES(float), panel = kPanelVecs * lanes;
  constexpr std::size_t kStepBytes = panel * sizeof(Weight), kLine = 64;
  constexpr std::size_t kAhead = kFetchAhead / kStepBytes;
  constexpr std::size_t kLineSteps = std::max<std::size_t>(1, kLine / kStepBytes);
  const FloatTag d;
  FloatVec acc[kPanels][kPanelVecs];
#pragma GCC unroll 8
  for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 8
    for (int v = 0; v < kPanelVecs; ++v) acc[p][v] = hn::Zero(d);
  }
  const auto take = [&](std::size_t i) HWY_ATTR {
    const FloatVec broadcast = hn::Set(d, x[i]);
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 8
      for (int v = 0; v < kPanelVecs; ++v) {
        acc[p][v] = hn::MulAdd(broadcast, load_wide(d, w + p * in * panel + v * lanes), acc[p][v]);
      }
    }
    w += panel;
  };
  std::size_t i = 0;
  for (; i + kLineSteps <= in; i += kLineSteps) {
    const Weight* ahead = i + kAhead < in ? w + kAhead * panel : next + (i + kAhead - in) * panel;
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) {
      const auto* line = reinterpret_cast<const char*>(ahead + p * in * panel);
#pragma GCC unroll 8
      for (std::size_t at = 0; at < kStepBytes; at += kLine) __builtin_prefetch(line + at);
    }
#pragma GCC unroll 8
    for (std::size_t step = 0; step < kLineSteps; ++step) take(i + step);
  }
  for (; i < in; ++i) take(i);
#pragma GCC unroll 8
  for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 8
    for (int v = 0; v < kPanelVecs; ++v) hn::StoreU(acc[p][v], d, y + p * panel + v * lanes);
  }
}

template <typename Weight>
void multiply_typed(const LinearTask& t) {
  const PackedMatrix& w = *t.w;
  const std::int64_t lanes = hn::Lanes(FloatTag()), rows = t.x.rows;
  const auto* weights = reinterpret_cast<const Weight*>(w.data.data());
  constexpr bool kWide = std::is_same_v<Weight, float>;
  HWY_ALIGN float widened[kWide ? 16 : kDepth * kPanelVecs * HWY_MAX_BYTES / sizeof(float)];
  HWY_ALIGN float partial[kRowBlock * kPanelVecs * HWY_MAX_BYTES / sizeof(float)];
  std::int64_t first = t.first_panel;
  if (rows == 1) {
    const std::int64_t whole = std::min(t.last_panel, w.out / w.panel);
    for (; first + kStreams <= whole; first += kStreams) {
      const Weight* panels = weights + first * w.in * w.panel;
      const bool more = first + 2 * kStreams <= w.out / w.panel;
      one_row<kStreams>(w.in, t.x.data, panels, more ? panels + kStreams * w.in * w.panel : weights,
                        t.y.data + first * w.panel);
    }
  }
  // A few rows fit into the cache at full depth; more rows are processed in blocks that fit.
  const std::int64_t block = rows <= 2 * kTileRows ? w.in : kDepth;
  for (std::int64_t k0 = 0; k0 < w.in; k0 += block) {
    const std::int64_t depth = std::min(block, w.in - k0);
    const float* x = t.x.data + k0;
    for (std::int64_t p = first; p < t.last_panel; ++p) {
      const Weight* b = weights + (p * w.in + k0) * w.panel;
      const std::int64_t columns = std::min(w.panel, w.out - p * w.panel);
      // y has no room for the padding of the last panel, so the last panel uses a buffer.
      const bool whole = columns == w.panel;
      const MatrixView<float> y = t.y.columns_at(p * w.panel, columns);
      float* c = whole ? y.data : partial;
      const std::int64_t ldc = whole ? y.stride : w.panel;
      if (!whole && k0 > 0) {
        for (std::int64_t r = 0; r < rows; ++r)
          std::memcpy(partial + r * w.panel, y.row(r), columns * sizeof(float));
      }
      if (!kWide && rows >= kWidenRows) {
        for (std::int64_t i = 0; i < depth * w.panel; i += lanes) {
          hn::StoreU(load_wide(FloatTag(), b + i), FloatTag(), widened + i);
        }
        column_block<kPanelVecs>(rows, depth, x, t.x.stride, widened, w.panel, c, ldc, k0 > 0);
      } else {
        column_block<kPanelVecs>(rows, depth, x, t.x.stride, b, w.panel, c, ldc, k0 > 0);
      }
      if (!whole) {
        for (std::int64_t r = 0; r < rows; ++r)
          std::memcpy(y.row(r), partial + r * w.panel, columns * sizeof(float));
      }
    }
  }
  if (t.bias == nullptr) return;
  const std::int64_t last = std::min(t.last_panel * w.panel, w.out);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t o = t.first_panel * w.panel; o < last; ++o) t.y(r, o) += t.bias[o];
  }
}

void multiply(const LinearTask& t) {
  switch (t.w->dtype) {
    case DType::kF32:
      return multiply_typed<float>(t);
    case DType::kF16:
      return multiply_typed<hwy::float16_t>(t);
    case DType::kBF16:
      return multiply_typed<hwy::bfloat16_t>(t);
  }
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench::cpu {

HWY_EXPORT(panel_width);
HWY_EXPORT(multiply);

PackedMatrix make_packed(std::int64_t out, std::int64_t in, DType dtype) {
  PackedMatrix m;
  m.out = out;
  m.in = in;
  m.panel = HWY_DYNAMIC_DISPATCH(panel_width)();
  m.dtype = dtype;
  m.data = Buffer(m.panels() * in * m.panel * size_of(dtype));
  const std::size_t last_panel = in * m.panel * size_of(dtype);
  if (m.data.size() > 0) std::memset(m.data.data() + m.data.size() - last_panel, 0, last_panel);
  return m;
}

void pack_rows(PackedMatrix& m, std::int64_t first, const void* source, DType source_dtype,
               std::int64_t rows) {
  const bool same = source_dtype == m.dtype;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t o = first + r;
    const std::int64_t base = (o / m.panel) * m.in * m.panel + o % m.panel;
    if (same && m.dtype == DType::kF32) {
      const float* row = static_cast<const float*>(source) + r * m.in;
      float* to = m.data.as<float>() + base;
      for (std::int64_t i = 0; i < m.in; ++i) to[i * m.panel] = row[i];
    } else if (same) {
      const auto* row = static_cast<const std::uint16_t*>(source) + r * m.in;
      auto* to = m.data.as<std::uint16_t>() + base;
      for (std::int64_t i = 0; i < m.in; ++i) to[i * m.panel] = row[i];
    } else {
      for (std::int64_t i = 0; i < m.in; ++i) {
        store_element(m.data.data(), m.dtype, base + i * m.panel,
                      load_element(source, source_dtype, r * m.in + i));
      }
    }
  }
}

void linear(ThreadPool& pool, MatrixView<const float> x, const PackedMatrix& w, const float* bias,
            MatrixView<float> y) {
  assert(x.columns == w.in && y.columns == w.out && x.rows == y.rows);
  if (x.rows == 0 || w.out == 0) return;
  const std::int64_t row_blocks = (x.rows + kRowBlock - 1) / kRowBlock, panels = w.panels();
  // About four tasks per thread balance the load; a group of panels stays large enough for
  // streaming.
  const std::int64_t wanted = std::max<std::int64_t>(1, 4 * pool.size() / row_blocks);
  std::int64_t group =
      std::max<std::int64_t>(pool.size() == 1 ? panels : kStreams, (panels + wanted - 1) / wanted);
  if (x.rows == 1 && group > kStreams) group -= group % kStreams;
  const std::int64_t groups = (panels + group - 1) / group;
  pool.parallel_for(row_blocks * groups, [&](std::int64_t task, int) {
    const std::int64_t row = task / groups * kRowBlock, first = task % groups * group;
    const std::int64_t rows = std::min(kRowBlock, x.rows - row);
    HWY_DYNAMIC_DISPATCH(multiply)
    (LinearTask{x.rows_at(row, rows), &w, first, std::min(first + group, panels), bias,
                y.rows_at(row, rows)});
  });
}

}  // namespace turnbench::cpu
#endif  // HWY_ONCE
