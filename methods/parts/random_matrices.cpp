#include "methods/parts/random_matrices.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/random.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "methods/parts/random_matrices.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace turnbench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// out = sum of x[i] * rows[i], in this order, in kVecs vectors of columns.  rows: [dims, dims].
template <int kVecs, class D>
HWY_INLINE void combine_columns(D d, const float* rows, std::span<const float> x, float* out) {
  hn::Vec<D> sums[kVecs];
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v) sums[v] = hn::Zero(d);
  for (std::size_t i = 0; i < x.size(); ++i, rows += x.size()) {
    const auto factor = hn::Set(d, x[i]);
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      const auto row = hn::LoadU(d, rows + static_cast<std::size_t>(v) * hn::Lanes(d));
      sums[v] = hn::Add(sums[v], hn::Mul(factor, row));
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v)
    hn::StoreU(sums[v], d, out + static_cast<std::size_t>(v) * hn::Lanes(d));
}

/// The sum of x[i] * rows[i].  Without fused multiply-adds, which not every machine has.
void combine(const float* rows, std::span<const float> x, float* out) {
  constexpr int kVecs = 8;
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  std::size_t c = 0;
  for (; c + kVecs * hn::Lanes(d) <= x.size(); c += kVecs * hn::Lanes(d))
    combine_columns<kVecs>(d, rows + c, x, out + c);
  for (; c + hn::Lanes(d) <= x.size(); c += hn::Lanes(d))
    combine_columns<1>(d, rows + c, x, out + c);
  for (; c < x.size(); ++c) combine_columns<1>(one, rows + c, x, out + c);
}

}  // namespace turnbench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench {

HWY_EXPORT(combine);

namespace {

/// Independent samples of a standard normal distribution (Box and Muller, 1958).
std::vector<double> normal_samples(Random random, std::size_t count) {
  std::vector<double> out(count);
  for (double& x : out) {
    const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
    x = radius * std::cos(2 * std::numbers::pi * random.uniform());
  }
  return out;
}

/// Makes the rows of a square matrix orthonormal, one after another (Gram and Schmidt).
void orthonormalise(std::vector<double>& rows, std::size_t dims) {
  for (std::size_t r = 0; r < dims; ++r) {
    double* row = rows.data() + r * dims;
    for (int pass = 0; pass < 2; ++pass) {  // the second removes rounding errors of the first
      for (std::size_t q = 0; q < r; ++q) {
        const double* other = rows.data() + q * dims;
        double product = 0;
        for (std::size_t d = 0; d < dims; ++d) product += row[d] * other[d];
        for (std::size_t d = 0; d < dims; ++d) row[d] -= product * other[d];
      }
    }
    double squares = 0;
    for (std::size_t d = 0; d < dims; ++d) squares += row[d] * row[d];
    const double norm = std::sqrt(squares);
    for (std::size_t d = 0; d < dims; ++d) row[d] /= norm;
  }
}

}  // namespace

SquareMatrix::SquareMatrix(std::span<const double> rows, std::size_t dims)
    : rows_(rows.begin(), rows.end()), columns_(rows.size()) {
  for (std::size_t r = 0; r < dims; ++r) {
    for (std::size_t c = 0; c < dims; ++c) columns_[c * dims + r] = rows_[r * dims + c];
  }
}

void SquareMatrix::multiply(std::span<const float> x, std::span<float> out) const {
  HWY_DYNAMIC_DISPATCH(combine)(columns_.data(), x, out.data());
}

void SquareMatrix::multiply_transposed(std::span<const float> x, std::span<float> out) const {
  HWY_DYNAMIC_DISPATCH(combine)(rows_.data(), x, out.data());
}

const RandomMatrices::OfSize& RandomMatrices::of(std::size_t dims) {
  const OfSize* last = last_.load(std::memory_order_acquire);
  if (last != nullptr && last->dims == dims) return *last;
  std::lock_guard lock(mutex_);
  auto at = all_.find(dims);
  if (at == all_.end()) at = all_.emplace(dims, make(dims)).first;
  last_.store(&at->second, std::memory_order_release);
  return at->second;
}

RandomMatrices::OfSize RandomMatrices::make(std::size_t dims) const {
  std::vector<double> rotation = normal_samples(Random::from({seed_, 1, dims}), dims * dims);
  orthonormalise(rotation, dims);
  return {dims, SquareMatrix(rotation, dims),
          SquareMatrix(normal_samples(Random::from({seed_, 2, dims}), dims * dims), dims)};
}

}  // namespace turnbench
#endif  // HWY_ONCE
