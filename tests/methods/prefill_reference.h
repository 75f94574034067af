#pragma once

// Compares the pairs that a prefill policy's patterns compute with a dense mask, and the attention
// with a reference in double precision.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "layer.h"
#include "methods/method.h"

namespace turnbench::test {

/// True if row i of query head h attends to key j by the method's definition, before causality.
using DenseMask = std::function<bool(int h, int i, int j)>;

inline PatternPass pass_of(const Layer& layer) {
  return {layer.n - layer.rows, layer.rows};
}

/// The keys that each row of the pass reads, computed as in the kernel.
inline std::vector<std::vector<std::int32_t>> rows_of(const HeadPattern& p, PatternPass pass) {
  std::vector<std::vector<std::int32_t>> out(static_cast<std::size_t>(pass.rows));
  std::vector<std::int32_t> keys;
  for (int block = 0; block * kPatternBlock < pass.rows; ++block) {
    const bool partial = pattern_keys(p, pass, block, keys);
    const PatternMask mask(p, pass, block);
    for (int r = block * kPatternBlock; r < std::min((block + 1) * kPatternBlock, pass.rows); ++r) {
      for (std::int32_t key : keys) {
        const std::int32_t row = pass.first_position + r;
        if (key <= row && (!partial || mask.contains(row, key))) out[r].push_back(key);
      }
    }
  }
  return out;
}

/// Attention of the layer's rows under `patterns` (dense if there are none): [rows][heads * D].
inline std::vector<float> attend(Layer& layer, const std::vector<HeadPattern>& patterns) {
  const std::size_t width = static_cast<std::size_t>(layer.shape.heads * layer.shape.head_dim);
  const auto first = static_cast<std::size_t>(layer.n - layer.rows);
  return layer.attend(static_cast<std::size_t>(layer.rows) * width, [&](float* out) {
    const auto rows = [&](auto* data, int head) {  // of the heads that share a set
      return MatrixView(data, layer.rows, width)
          .columns_at(head * layer.shape.head_dim, layer.shape.group() * layer.shape.head_dim);
    };
    std::vector<AttentionJob> jobs;
    for (int s = 0; s < layer.shape.kv_heads; ++s) {
      const int head = s * layer.shape.group();
      AttentionJob job;
      job.keys = &layer.sets[s];
      job.q = rows(layer.queries.data() + first * width, head);
      job.out = rows(out, head);
      job.positions = layer.positions.data() + first;
      job.patterns = patterns.empty() ? nullptr : patterns.data() + head;
      job.pass = pass_of(layer);
      jobs.push_back(job);
    }
    return jobs;
  });
}

/// Compares the masks of all rows, and the outputs of some rows including the first and the last.
inline void expect_equal(Layer& layer, const std::vector<HeadPattern>& patterns,
                         const DenseMask& mask) {
  const PatternPass pass = pass_of(layer);
  const std::vector<float> out = attend(layer, patterns);
  const int d = layer.shape.head_dim;
  for (int h = 0; h < layer.shape.heads; ++h) {
    const HeadPattern pattern = patterns.empty() ? HeadPattern{} : patterns[h];
    const auto got = rows_of(pattern, pass);
    std::int64_t pairs = 0;
    for (int r = 0; r < layer.rows; ++r) {
      const int i = pass.first_position + r;
      std::vector<std::int32_t> want;
      for (int j = 0; j <= i; ++j) {
        if (mask(h, i, j)) want.push_back(j);
      }
      ASSERT_EQ(got[r], want) << "head " << h << " row " << i;
      pairs += static_cast<std::int64_t>(want.size());
      if (r % 97 != 0 && r != layer.rows - 1) continue;
      std::vector<double> sum(static_cast<std::size_t>(d));
      double mass = 0;
      for (std::int32_t j : want) {
        const double p = layer.probability(h, i, j);
        mass += p;
        const float* v = layer.values[h / layer.shape.group()].data() + j * d;
        for (int c = 0; c < d; ++c) sum[c] += p * v[c];
      }
      for (int c = 0; c < d; ++c) {
        const std::size_t at = static_cast<std::size_t>((r * layer.shape.heads + h) * d + c);
        ASSERT_NEAR(out[at], sum[c] / mass, 1e-4) << "head " << h << " row " << i;
      }
    }
    EXPECT_EQ(pattern_pairs(pattern, pass), pairs) << "head " << h;
  }
}

inline std::vector<HeadPattern> plan(const std::string& spec, Layer& layer, int at = 0) {
  return Method::parse(spec).make().prefill->plan(layer.view(at));
}

/// Calls test(layer) for the sizes under test: whole prompts, and later turns that do not begin at
/// a block boundary.
inline void for_each_size(const std::function<void(Layer&)>& test) {
  std::uint64_t seed = 1;
  for (int group : {1, 4, 7}) {
    for (int head_dim : {64, 128}) {
      for (int n : {1, 63, 64, 65, 1000}) {
        for (int rows : {n, 290}) {
          if (rows > n || (rows < n && head_dim > 64)) continue;
          SCOPED_TRACE(fmt::format("G {} D {} n {} rows {}", group, head_dim, n, rows));
          Layer layer(group == 1 ? 2 : 1, group, head_dim, n, rows, seed += 200);
          test(layer);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

}  // namespace turnbench::test
