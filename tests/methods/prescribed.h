#pragma once

// A layer whose attention probabilities are given, for worked examples.

#include <cmath>
#include <string>
#include <vector>

#include "layer.h"
#include "methods/method.h"
#include "tests/inference/set_rows.h"

namespace turnbench::test {

using Ints = std::vector<std::int32_t>;
using Rows = std::vector<std::vector<double>>;

/// heads[h][i][j] is the attention probability of row i of query head h for key j.  Keys are unit
/// vectors, so the elements of a query are its logits.  The last `pass_rows` rows are those of the
/// pass (0: all rows); the others are cached already.
class PrescribedLayer : public Layer {
 public:
  explicit PrescribedLayer(const std::vector<Rows>& heads, int kv_heads = 1, int pass_rows = 0)
      : Layer(kv_heads, static_cast<int>(heads.size()) / kv_heads, 64,
              static_cast<int>(heads[0].size()),
              pass_rows > 0 ? pass_rows : static_cast<int>(heads[0].size()), 1) {
    for (int i = 0; i < n; ++i) {
      for (int h = 0; h < shape.heads; ++h) {
        const std::vector<double>& row = heads[h][i];
        float* q = queries.data() + static_cast<std::size_t>((i * shape.heads + h) * 64);
        for (int j = 0; j < 64; ++j) {
          const double p = j <= i ? row[j] : 1;
          q[j] = static_cast<float>(std::log(std::max(p, 1e-30)) * 8);  // 8 = sqrt(64)
        }
      }
    }
    for (std::size_t s = 0; s < sets.size(); ++s) {
      for (int j = 0; j < n; ++j) {
        std::vector<float> key(64, 0);
        key[j] = 1;
        test::write_rows(sets[s], j, key.data(), nullptr, nullptr);
        std::copy(key.begin(), key.end(), keys[s].begin() + j * 64);
      }
    }
    upload_queries();
    tail.clear();
    for (int i = n - rows; i < n; ++i) {
      tail.push(queries.data() + static_cast<std::size_t>(i * shape.heads * 64), i);
    }
  }
};

/// Rows that are equal except for causality: row i gives key j < i the probability last[j], and
/// itself the rest.
inline Rows rows_like(const std::vector<double>& last) {
  Rows out;
  for (std::size_t i = 0; i <= last.size(); ++i) {
    std::vector<double> row(last.begin(), last.begin() + static_cast<std::ptrdiff_t>(i));
    double sum = 0;
    for (double x : row) sum += x;
    row.push_back(std::max(1 - sum, 1e-30));
    out.push_back(row);
  }
  return out;
}

inline std::vector<Ints> kept(const std::string& spec, Layer& layer, int at = 0) {
  return Method::parse(spec).make().eviction->after_prefill(layer.view(at)).slots;
}

/// Attention of the heads [first_head, first_head + heads) to each key below `count`, summed over
/// rows [first, n).
inline std::vector<double> summed(Layer& layer, int first_head, int heads, int first, int count) {
  std::vector<double> out(static_cast<std::size_t>(count), 0);
  for (int h = first_head; h < first_head + heads; ++h) {
    for (int i = first; i < layer.n; ++i) {
      for (int j = 0; j < std::min(count, i + 1); ++j) out[j] += layer.probability(h, i, j);
    }
  }
  return out;
}

inline std::vector<double> pooled(const std::vector<double>& s, int kernel) {
  std::vector<double> out;
  const int n = static_cast<int>(s.size());
  for (int j = 0; j < n; ++j) {
    const int begin = std::max(0, j - kernel / 2), end = std::min(n, j + kernel / 2 + 1);
    out.push_back(*std::max_element(s.begin() + begin, s.begin() + end));
  }
  return out;
}

inline Ints and_tail(Ints chosen, int begin, int end) {
  for (int j = begin; j < end; ++j) chosen.push_back(j);
  return chosen;
}

/// True if the sets have the same scores.  Slots from scores.size() on must be equal.
inline bool equal_by_score(const Ints& got, const Ints& want, std::vector<double> scores, int n) {
  scores.resize(static_cast<std::size_t>(n), 1e9);
  return std::is_sorted(got.begin(), got.end()) && same_by_score(got, want, scores);
}

/// Sets a text of the layer in which token t ends a segment if it is in `ends`.
inline void tell(Layer& layer, std::vector<int>& tokens, const std::vector<int>& ends) {
  tokens.assign(static_cast<std::size_t>(layer.n), 0);
  for (int t : ends) tokens[t] = 1;
  layer.dialogue.tokens = tokens;
  layer.dialogue.token_text = [](int token) { return std::string(token == 1 ? "." : "a"); };
}

}  // namespace turnbench::test
