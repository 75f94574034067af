#pragma once

#include <numeric>
#include <vector>

#include "inference/cpu/attention.h"
#include "tests/inference/reference.h"

namespace turnbench::test {

/// Dense causal attention of the last `rows` of `keys` positions for query heads that share one KV
/// head, on random numbers.  For tests and benchmarks.
struct AttentionProblem {
  AttentionProblem(int rows, int keys, int heads, int head_dim, DType dtype)
      : set(std::make_shared<KvPool>(PageLayout{head_dim, dtype, false})),
        q(random_floats(static_cast<std::size_t>(rows * heads * head_dim), 3)),
        out(q.size()),
        positions(static_cast<std::size_t>(rows)) {
    const auto width = static_cast<std::size_t>(head_dim);
    const std::vector<float> k = random_floats(static_cast<std::size_t>(keys) * width, 1),
                             v = random_floats(k.size(), 2);
    for (int j = 0; j < keys; ++j) {
      const std::size_t at = static_cast<std::size_t>(j) * width;
      set.append(k.data() + at, v.data() + at, nullptr, j);
    }
    std::iota(positions.begin(), positions.end(), keys - rows);
    job.keys = &set;
    job.q = {q.data(), rows, heads * head_dim};
    job.out = {out.data(), rows, heads * head_dim};
    job.positions = positions.data();
    job.pass = {keys - rows, rows};
  }
  AttentionProblem(const AttentionProblem&) = delete;  // `job` points into it
  AttentionProblem& operator=(const AttentionProblem&) = delete;

  KvHeadCache set;
  std::vector<float> q, out;
  std::vector<std::int32_t> positions;
  AttentionJob job;
};

}  // namespace turnbench::test
