#pragma once

// One layer with random queries, keys and values, as policies get it, and the plain references that
// methods are compared with: dense masks, double precision, eager attention.

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "common/random.h"
#include "inference/backend/backend.h"
#include "inference/model/rope.h"
#include "inference/policy/policy.h"
#include "tests/backends/backend.h"
#include "tests/inference/set_rows.h"

namespace turnbench::test {

class Layer {
 public:
  static constexpr int kHidden = 24;  ///< width of the layer's output

  /// `n` cached tokens; the last `rows` are the rows of this pass.
  Layer(int kv_heads, int group, int head_dim, int n, int rows, std::uint64_t seed,
        int tail_rows = 256)
      : shape{4, kv_heads * group, kv_heads, head_dim},
        backend(test::make_backend(2)),
        n(n),
        rows(rows),
        tail(tail_rows, shape.heads * head_dim),
        frequencies(rope_frequencies({}, head_dim)) {
    shape.rope = {frequencies, 1};
    const int width = shape.heads * head_dim;
    queries = draw(std::size_t{1} * n * width, seed);
    query_memory_ = Buffer(queries.size() * sizeof(float), backend->memory());
    upload_queries();
    auto pool =
        std::make_shared<KvPool>(PageLayout{head_dim, DType::kF32, false}, backend->memory());
    for (int h = 0; h < kv_heads; ++h) {
      keys.push_back(
          draw(static_cast<std::size_t>(n * head_dim), seed + 1 + static_cast<std::uint64_t>(h)));
      values.push_back(
          draw(static_cast<std::size_t>(n * head_dim), seed + 100 + static_cast<std::uint64_t>(h)));
      KvHeadCache set(pool);
      for (int j = 0; j < n; ++j)
        test::append_row(set, keys.back().data() + j * head_dim,
                         values.back().data() + j * head_dim, nullptr, j);
      sets.push_back(set);
    }
    output_weights = draw(static_cast<std::size_t>(kHidden * width), seed + 200);
    attention_out = backend->make_matrix(kHidden, width, DType::kF32, Math::kF32);
    attention_out->set_rows(0, std::as_bytes(std::span(output_weights)).data(), DType::kF32,
                            kHidden);
    for (int i = 0; i < n; ++i) positions.push_back(i);
    set_rows(rows);
  }

  /// Makes the last `count` tokens the rows of the pass, with the current queries.
  void set_rows(int count) {
    rows = count;
    const int first = n - rows;
    tail.clear();
    for (int i = first; i < n; ++i) tail.push(queries.data() + i * tail.width(), i);
    upload_queries();
    stats = std::make_unique<AttentionStats>(
        *backend, shape, static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_dim))), 0,
        sets, QueryRows{query_rows().rows_at(first, rows), positions.data() + first}, &tail);
  }

  /// The output of the backend's attention for the jobs of `make`, which writes to an output of
  /// `count` floats.
  template <typename Make>
  std::vector<float> attend(std::size_t count, const Make& make) {
    Buffer out(count * sizeof(float), backend->memory());
    const std::vector<AttentionJob> jobs = make(out.as<float>());
    backend->attend(1 / std::sqrt(static_cast<float>(shape.head_dim)), jobs);
    std::vector<float> host(count);
    backend->memory()->copy_floats(out.as<float>(), host.data(), count);
    return host;
  }

  /// Copies changed `queries` to the backend's memory; `view` does so too.
  void upload_queries() {
    backend->memory()->copy_floats(queries.data(), query_memory_.as<float>(), queries.size());
  }
  /// The queries in the backend's memory, [n, heads * head_dim].
  MatrixView<const float> query_rows() const {
    const std::int64_t width = shape.heads * shape.head_dim;
    return {query_memory_.as<float>(), std::ssize(queries) / width, width};
  }

  LayerView view(int layer = 0) {
    const int prompt = prompt_tokens > 0 ? prompt_tokens : n;
    LayerView out{layer, shape, sets, *stats, dialogue, n - rows, rows, prompt, generated};
    upload_queries();  // tests may have changed them
    out.backend = backend.get();
    out.queries = query_rows().rows_at(n - rows, rows);
    out.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_dim)));
    out.memo = &memo;
    out.background = &background;
    out.scratch = &scratch;
    out.attention_out = attention_out.get();
    return out;
  }

  /// Attention probability of key j for the row at position i of query head h, from whole rows in
  /// double precision.
  double probability(int h, int i, int j) {
    auto& row = cache_[{h, i}];
    if (row.empty()) {
      const float* q =
          queries.data() + static_cast<std::size_t>((i * shape.heads + h) * shape.head_dim);
      const std::vector<float>& k = keys[h / shape.group()];
      double top = -INFINITY, sum = 0;
      for (int key = 0; key <= i; ++key) {
        double dot = 0;
        for (int d = 0; d < shape.head_dim; ++d)
          dot += static_cast<double>(q[d]) * k[key * shape.head_dim + d];
        row.push_back(dot / std::sqrt(static_cast<double>(shape.head_dim)));
        top = std::max(top, row.back());
      }
      for (double& x : row) sum += x = std::exp(x - top);
      for (double& x : row) x /= sum;
    }
    return j <= i ? row[j] : 0;
  }

  ModelShape shape;
  std::unique_ptr<Backend> backend;
  int n, rows;
  QueryTail tail;
  std::vector<float> frequencies;  ///< [head_dim / 2]
  std::vector<std::vector<float>> keys, values;
  std::vector<float> queries;         ///< [n, heads * head_dim]
  std::vector<float> output_weights;  ///< of the output projection: [kHidden, heads * head_dim]
  std::unique_ptr<WeightMatrix> attention_out;
  std::vector<KvHeadCache> sets;
  std::vector<std::int32_t> positions;
  std::unique_ptr<AttentionStats> stats;
  DialogueView dialogue;
  LayerMemo memo;
  BackgroundTasks background{1};
  Arena scratch{backend->memory()};
  int prompt_tokens = 0;  ///< 0: all n tokens are prompt tokens
  int generated = 0;

 private:
  static std::vector<float> draw(std::size_t count, std::uint64_t seed) {
    std::mt19937_64 engine(seed);
    std::normal_distribution<float> normal(0, 1.5f);
    std::vector<float> out(count);
    for (float& x : out) x = normal(engine);
    return out;
  }
  Buffer query_memory_;
  std::map<std::pair<int, int>, std::vector<double>> cache_;
};

/// The k best of `scores`; ties go to the lower index.  Two orders of summation may rank nearly
/// equal scores differently, so `same_by_score` compares sets of slots by their scores.
inline std::vector<std::int32_t> best(const std::vector<double>& scores, int k) {
  std::vector<std::int32_t> order(scores.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return scores[a] > scores[b]; });
  order.resize(static_cast<std::size_t>(std::min<int>(k, static_cast<int>(order.size()))));
  std::sort(order.begin(), order.end());
  return order;
}

inline bool same_by_score(const std::vector<std::int32_t>& got,
                          const std::vector<std::int32_t>& want, const std::vector<double>& scores,
                          double tolerance = 1e-5) {
  if (got.size() != want.size()) return false;
  const std::set<std::int32_t> a(got.begin(), got.end()), b(want.begin(), want.end());
  double low = INFINITY, high = -INFINITY;  // over slots that only one of the sets has
  for (std::int32_t x : a) {
    if (!b.contains(x)) low = std::min(low, scores[x]), high = std::max(high, scores[x]);
  }
  for (std::int32_t x : b) {
    if (!a.contains(x)) low = std::min(low, scores[x]), high = std::max(high, scores[x]);
  }
  return high <= low || high - low <= tolerance;
}

}  // namespace turnbench::test
