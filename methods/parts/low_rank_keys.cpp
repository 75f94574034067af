#include "methods/parts/low_rank_keys.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "methods/parts/cached_keys.h"

namespace turnbench {
namespace {

using FloatRows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using DoubleRows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr std::int64_t kRowsAtOnce = 256;  // rows widened at a time

/// Singular values below this share of the largest one are rounding errors, because they are square
/// roots of computed eigenvalues.
constexpr double kLeastShare = 1e-7;

auto rows_of(MatrixView<const float> x, std::int64_t first, std::int64_t count) {
  return Eigen::Map<const FloatRows, 0, Eigen::OuterStride<>>(x.row(first), count, x.columns,
                                                              Eigen::OuterStride<>(x.stride));
}

}  // namespace

RightFactors right_factors(MatrixView<const float> x, int rank) {
  const std::int64_t width = x.columns, kept = std::min({std::int64_t{rank}, x.rows, width});
  Eigen::MatrixXd gram = Eigen::MatrixXd::Zero(width, width);
  for (std::int64_t r = 0; r < x.rows; r += kRowsAtOnce) {
    const Eigen::MatrixXd some =
        rows_of(x, r, std::min(kRowsAtOnce, x.rows - r)).cast<double>().transpose();
    gram.selfadjointView<Eigen::Lower>().rankUpdate(some);
  }
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solved(gram);
  RightFactors out;
  out.columns = width;
  for (std::int64_t i = 0; i < kept; ++i) {
    const std::int64_t at = width - 1 - i;  // eigenvalues ascend
    out.values.push_back(std::sqrt(std::max(0.0, solved.eigenvalues()[at])));
    const double* vector = solved.eigenvectors().col(at).data();
    out.vectors.insert(out.vectors.end(), vector, vector + width);
  }
  return out;
}

std::vector<float> coefficients(MatrixView<const float> x, const RightFactors& factors) {
  const std::int64_t rank = factors.rank();
  Eigen::MatrixXd weighted =
      Eigen::Map<const DoubleRows>(factors.vectors.data(), rank, x.columns).transpose();
  for (std::int64_t i = 0; i < rank; ++i) {
    const double s = factors.values[i];
    weighted.col(i) *= s > kLeastShare * factors.values.front() ? 1 / s : 0;
  }
  // Its relative rounding error is that of x, regardless of 1 / s.
  const Eigen::MatrixXf in_floats = weighted.cast<float>();
  std::vector<float> out(static_cast<std::size_t>(x.rows * rank));
  for (std::int64_t r = 0; r < x.rows; r += kRowsAtOnce) {
    const std::int64_t count = std::min(kRowsAtOnce, x.rows - r);
    Eigen::Map<FloatRows>(out.data() + r * rank, count, rank) = rows_of(x, r, count) * in_floats;
  }
  return out;
}

std::vector<float> weighted_vectors(const RightFactors& factors) {
  std::vector<float> out;
  out.reserve(factors.vectors.size());
  for (std::size_t i = 0; i < factors.vectors.size(); ++i) {
    const double s = factors.values[i / static_cast<std::size_t>(factors.columns)];
    out.push_back(static_cast<float>(s * factors.vectors[i]));
  }
  return out;
}

LowRankKeys::LowRankKeys(const LayerView& view, int end, int rank)
    : end_(end),
      sets_(std::ssize(view.sets)),
      head_dim_(view.shape.head_dim),
      rank_(std::min<std::int64_t>({rank, end, sets_ * head_dim_})),
      dtype_(view.sets.front().layout().dtype),
      memory_(view.backend->memory()) {
  start(view, rank);
}

LowRankKeys::LowRankKeys(const LayerView& view, std::shared_ptr<const LowRankKeys> before, int end)
    : first_(before->end_),
      end_(end),
      sets_(before->sets_),
      head_dim_(before->head_dim_),
      rank_(before->rank_),
      dtype_(before->dtype_),
      memory_(before->memory_),
      before_(std::move(before)) {
  start(view, 0);
}

void LowRankKeys::start(const LayerView& view, int rank) {
  work_->keys = layer_keys_on_host(view, first_, end_, KvRow::kPreRopeKey);
  // The task does not own any device memory.
  job_ = view.background->start(1, [work = work_, before = before_ ? before_->work_ : nullptr,
                                    before_job = before_ ? before_->job_ : nullptr,
                                    width = sets_ * head_dim_, dtype = dtype_, rank](std::size_t) {
    const MatrixView<const float> keys(work->keys.data(), std::ssize(work->keys) / width, width);
    if (before) {
      before_job->wait();
      work->factors = before->factors;
    } else {
      work->factors = std::make_shared<RightFactors>(right_factors(keys, rank));
    }
    const std::vector<float> found = turnbench::coefficients(keys, *work->factors);
    work->keys = {};
    work->coefficients.resize(found.size() * size_of(dtype));
    for (std::size_t i = 0; i < found.size(); ++i)
      store_element(work->coefficients.data(), dtype, i, found[i]);
  });
}

void LowRankKeys::move() const {
  std::call_once(moved_, [&] {
    job_->wait();
    std::vector<std::byte>& found = work_->coefficients;
    coefficients_ = Buffer(found.size(), memory_);
    memory_->copy(std::array{Copy{coefficients_.data(), found.data(), found.size()}});
    memory_->synchronize();
    found = {};
    if (before_) return;
    const std::vector<float> all = weighted_vectors(*work_->factors);
    // Set after set: [sets][rank, head_dim].
    std::vector<float> basis;
    basis.reserve(all.size());
    const std::int64_t rank = work_->factors->rank(), width = sets_ * head_dim_;
    for (std::int64_t s = 0; s < sets_; ++s) {
      for (std::int64_t r = 0; r < rank; ++r) {
        const float* row = all.data() + r * width + s * head_dim_;
        basis.insert(basis.end(), row, row + head_dim_);
      }
    }
    basis_ = Buffer(basis.size() * sizeof(float), memory_);
    memory_->copy_floats(basis.data(), basis_.as<float>(), basis.size());
  });
}

std::size_t LowRankKeys::bytes() const {
  const std::int64_t own = (end_ - first_) * rank_, basis = rank_ * sets_ * head_dim_;
  return static_cast<std::size_t>(own) * size_of(dtype_) +
         (before_ ? 0 : static_cast<std::size_t>(basis) * sizeof(float));
}

const std::byte* LowRankKeys::coefficients() const {
  move();
  return coefficients_.data();
}

MatrixView<const float> LowRankKeys::basis(std::size_t set) const {
  if (before_) return before_->basis(set);
  move();
  const std::int64_t rank = work_->factors->rank();
  return {basis_.as<float>() + static_cast<std::int64_t>(set) * rank * head_dim_, rank, head_dim_};
}

}  // namespace turnbench
