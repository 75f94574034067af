#include "methods/parts/random_matrices.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/random.h"

namespace turnbench {
namespace {

/// out = sum of x[i] * rows[i].  rows: [dims, dims].
void combine(std::span<const float> rows, std::span<const float> x, float* __restrict out) {
  std::fill_n(out, x.size(), 0.0f);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float* row = rows.data() + i * x.size();
    for (std::size_t d = 0; d < x.size(); ++d) out[d] += x[i] * row[d];
  }
}

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
  combine(columns_, x, out.data());
}

void SquareMatrix::multiply_transposed(std::span<const float> x, std::span<float> out) const {
  combine(rows_, x, out.data());
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
