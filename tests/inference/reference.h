#pragma once

// Plain double-precision references for the kernels.

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "inference/attention/attention_pattern.h"
#include "inference/kv/kv_cache.h"

namespace turnbench::test {

inline std::vector<float> random_floats(std::size_t n, std::uint64_t seed, float scale = 1) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> out(n);
  for (float& x : out) x = normal(engine);
  return out;
}

/// Floats stored as `dtype`, and their values after rounding.
inline std::vector<std::byte> stored_as(DType dtype, const std::vector<float>& values) {
  std::vector<std::byte> out(values.size() * size_of(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) store_element(out.data(), dtype, i, values[i]);
  return out;
}
inline std::vector<float> rounded_to(DType dtype, const std::vector<float>& values) {
  const std::vector<std::byte> stored = stored_as(dtype, values);
  std::vector<float> out(values.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = load_element(stored.data(), dtype, i);
  return out;
}

inline HeadPattern band(int sinks, int local, int dense_rows = 0) {
  HeadPattern p;
  p.kind = HeadPattern::Kind::kBand;
  p.sinks = sinks;
  p.local = local;
  p.dense_rows = dense_rows;
  return p;
}

/// softmax(q . K / sqrt(D)) V over the keys for which visible(j); also the log-sum-exp.
struct EagerRow {
  std::vector<double> out, probabilities;
  double lse = 0;
};

inline EagerRow eager_attention(const float* q, const std::vector<float>& keys,
                                const std::vector<float>& values, int head_dim,
                                const std::function<bool(int)>& visible) {
  const auto width = static_cast<std::size_t>(head_dim), n = keys.size() / width;
  std::vector<std::size_t> seen;
  std::vector<double> z(n, 0);  // scores, then probabilities; 0 for rows that can attend to no key
  double top = -INFINITY, sum = 0;
  for (std::size_t j = 0; j < n; ++j) {
    if (!visible(static_cast<int>(j))) continue;
    seen.push_back(j);
    for (std::size_t d = 0; d < width; ++d) z[j] += static_cast<double>(q[d]) * keys[j * width + d];
    z[j] /= std::sqrt(static_cast<double>(head_dim));
    top = std::max(top, z[j]);
  }
  for (std::size_t j : seen) sum += z[j] = std::exp(z[j] - top);
  EagerRow row;
  row.out.assign(width, 0);
  row.lse = top + std::log(sum);
  for (std::size_t j : seen) {
    z[j] /= sum;
    for (std::size_t d = 0; d < width; ++d) row.out[d] += z[j] * values[j * width + d];
  }
  row.probabilities = std::move(z);
  return row;
}

/// A set whose slot j holds row j of keys and values at positions[j].
inline KvHeadCache make_set(const std::vector<float>& keys, const std::vector<float>& values,
                            int head_dim, const std::vector<std::int32_t>& positions,
                            DType dtype = DType::kF32) {
  KvHeadCache set(std::make_shared<KvPool>(PageLayout{head_dim, dtype, false}));
  for (std::size_t j = 0; j < positions.size(); ++j) {
    set.append(keys.data() + j * static_cast<std::size_t>(head_dim),
               values.data() + j * static_cast<std::size_t>(head_dim), nullptr, positions[j]);
  }
  return set;
}

}  // namespace turnbench::test
