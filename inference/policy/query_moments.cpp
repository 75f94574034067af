#include "inference/policy/query_moments.h"

#include "inference/model/rope.h"

namespace turnbench {

QueryMoments::QueryMoments(int heads, int head_dim)
    : head_dim_(head_dim),
      sums_(static_cast<std::size_t>(heads) * head_dim),
      products_(static_cast<std::size_t>(heads) * head_dim * head_dim) {}

void QueryMoments::add(int head, std::span<const float> queries,
                       std::span<const std::int32_t> positions, const RopeAngles& rope) {
  const std::size_t d = static_cast<std::size_t>(head_dim_), half = d / 2;
  std::vector<float> cos(positions.size() * half), sin(cos.size());
  rope_tables(rope.frequencies, rope.attention_factor, positions, cos.data(), sin.data());
  const double factor = rope.attention_factor * rope.attention_factor;
  double *sums = sums_.data() + head * d, *products = products_.data() + head * d * d;
  std::vector<double> q(d);
  for (std::size_t r = 0; r < positions.size(); ++r) {
    const float *row = queries.data() + r * d, *c = cos.data() + r * half,
                *s = sin.data() + r * half;
    for (std::size_t i = 0; i < half; ++i) {  // the inverse rotation
      const double a = row[i], b = row[i + half];
      q[i] = (a * c[i] + b * s[i]) / factor;
      q[i + half] = (b * c[i] - a * s[i]) / factor;
    }
    for (std::size_t i = 0; i < d; ++i) {
      sums[i] += q[i];
      double* out = products + i * d;
      for (std::size_t j = 0; j < d; ++j) out[j] += q[i] * q[j];
    }
  }
}

std::vector<double> QueryMoments::mean(int head) const {
  const std::size_t d = static_cast<std::size_t>(head_dim_);
  std::vector<double> out(sums_.begin() + static_cast<std::ptrdiff_t>(head * d),
                          sums_.begin() + static_cast<std::ptrdiff_t>((head + 1) * d));
  for (double& x : out) x /= rows_;
  return out;
}

std::vector<double> QueryMoments::covariance(int head) const {
  const std::size_t d = static_cast<std::size_t>(head_dim_);
  const std::vector<double> mean_of_head = mean(head);
  std::vector<double> out(d * d);
  for (std::size_t i = 0; i < d; ++i) {
    for (std::size_t j = 0; j < d; ++j) {
      out[i * d + j] =
          products_[head * d * d + i * d + j] / rows_ - mean_of_head[i] * mean_of_head[j];
    }
  }
  return out;
}

}  // namespace turnbench
