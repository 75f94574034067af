#include "inference/cpu/bf16_linear.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace turnbench::cpu {
namespace {

/// y += bias.
void add_bias(const float* bias, std::int64_t first, std::int64_t last, MatrixView<float> y) {
  if (bias == nullptr) return;
  for (std::int64_t r = 0; r < y.rows; ++r) {
    for (std::int64_t o = first; o < last; ++o) y(r, o) += bias[o];
  }
}

constexpr std::int64_t kRoundedRows = 16;  // that a task rounds

}  // namespace

PairedMatrix make_paired(std::int64_t out, std::int64_t in) {
  PairedMatrix m{.out = out, .in = in, .data = {}};
  m.data = Buffer(m.view().size() * sizeof(std::uint16_t));
  if (m.data.size() > 0) std::memset(m.data.data(), 0, m.data.size());
  return m;
}

void pack_rows(PairedMatrix& m, std::int64_t first, const void* source, DType dtype,
               std::int64_t rows) {
  auto* to = m.data.as<std::uint16_t>();
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t base = m.view().index(first + r, 0);
    for (std::int64_t i = 0; i < m.in; ++i) {
      const std::int64_t at = base + i / 2 * kPanelOutputs * 2 + i % 2, element = r * m.in + i;
      to[at] = dtype == DType::kBF16 ? static_cast<const std::uint16_t*>(source)[element]
                                     : float_to_bf16(load_element(source, dtype, element));
    }
  }
}

void linear_bf16(ThreadPool& pool, MatrixView<const float> x, PairedView w, const float* bias,
                 MatrixView<float> y, Scratch& rounded, Bf16Unit unit) {
  assert(x.columns == w.in && y.columns == w.out && x.rows == y.rows);
  if (x.rows == 0 || w.out == 0) return;
  unit = RoundedRows::unit_for(x.rows, unit);
  const RoundedRows all{unit, rounded.get(RoundedRows::floats(x.rows, w.in, unit)), w.in};
  pool.parallel_for((x.rows + kRoundedRows - 1) / kRoundedRows, [&](std::size_t task, int) {
    const std::int64_t first = static_cast<std::int64_t>(task) * kRoundedRows;
    all.from(first).set(x.rows_at(first, std::min(kRoundedRows, x.rows - first)));
  });
  // About four tasks per thread balance the load; groups are even, for kernels of two panels.
  const std::int64_t row_blocks = (y.rows + kBf16RowBlock - 1) / kBf16RowBlock;
  const std::int64_t wanted = std::max<std::int64_t>(1, 4 * pool.size() / row_blocks);
  constexpr std::int64_t kLeast = 4;
  std::int64_t group = pool.size() == 1 ? w.panels() : (w.panels() + wanted - 1) / wanted;
  group = std::max(kLeast, (group + kLeast - 1) / kLeast * kLeast);
  const std::int64_t groups = (w.panels() + group - 1) / group;
  pool.parallel_for(row_blocks * groups, [&](std::size_t task, int) {
    const std::int64_t row = static_cast<std::int64_t>(task) / groups * kBf16RowBlock,
                       first = static_cast<std::int64_t>(task) % groups * group,
                       last = std::min(first + group, w.panels());
    const MatrixView<float> part = y.rows_at(row, std::min(kBf16RowBlock, y.rows - row));
    multiply({all.from(row), w, first, last, part});
    add_bias(bias, first * kPanelOutputs, std::min(last * kPanelOutputs, w.out), part);
  });
}

}  // namespace turnbench::cpu
