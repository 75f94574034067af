#pragma once

// A plain decoder of the Llama family with its cache: double precision, dense matrices, a loop for
// each sum.  The reference for whole dialogues.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "inference/engine/model.h"
#include "inference/model/rope.h"

namespace turnbench::test {

using Row = std::vector<double>;

/// Cached tokens of one KV head or of one query head; each has a position, a key and a value.
struct PlainSet {
  std::vector<int> positions;
  std::vector<Row> keys, values;

  int size() const { return static_cast<int>(positions.size()); }
  PlainSet kept(std::span<const int> slots) const {
    PlainSet out;
    for (int slot : slots) {
      const auto at = static_cast<std::size_t>(slot);
      out.positions.push_back(positions[at]);
      out.keys.push_back(keys[at]);
      out.values.push_back(values[at]);
    }
    return out;
  }
};

using PlainSets = std::vector<PlainSet>;          ///< of one layer
using Attention = std::vector<std::vector<Row>>;  ///< probabilities [query head][row][slot]
/// The inputs of a layer's attention before RoPE: rows of all heads at positions first, first + 1,
/// ...
struct PlainRows {
  int layer = 0, first = 0;
  std::vector<Row> queries, keys, values;
};
using AfterAttention = std::function<void(int layer, PlainSets& sets, const Attention& attention)>;

class PlainDecoder {
 public:
  explicit PlainDecoder(const std::string& directory) {
    const Checkpoint checkpoint = Checkpoint::open(directory);
    config = checkpoint.config;
    frequencies_ = rope_frequencies(config.rope, config.head_dim);
    for (const auto& [name, tensor] : checkpoint.tensors->all()) {
      Row& weight = weights_[name];
      for (std::size_t i = 0; i < tensor.bytes.size() / size_of(tensor.dtype); ++i)
        weight.push_back(load_element(tensor.bytes.data(), tensor.dtype, i));
    }
  }

  /// Reads tokens at positions first, first + 1, ... and appends them to `cache` [layer].  `after`
  /// may then drop tokens of the layer.  Returns the last token's logits.
  Row forward(std::vector<PlainSets>& cache, std::span<const int> tokens, int first,
              const AfterAttention& after) const {
    const auto hidden = static_cast<std::size_t>(config.hidden);
    const Row& table = weights_.at("model.embed_tokens.weight");
    std::vector<Row> x;
    for (int token : tokens) {
      const auto at = table.begin() + static_cast<std::ptrdiff_t>(token) * config.hidden;
      x.emplace_back(at, at + config.hidden);
    }
    for (int l = 0; l < config.layers; ++l) {
      const std::string name = fmt::format("model.layers.{}.", l);
      PlainSets& sets = cache[l];
      std::vector<Row> queries;
      PlainRows rows{l, first, {}, {}, {}};
      for (std::size_t r = 0; r < x.size(); ++r) {
        const int position = first + static_cast<int>(r);
        const Row in = normed(x[r], name + "input_layernorm.weight");
        rows.queries.push_back(product(name + "self_attn.q_proj.weight", in));
        rows.keys.push_back(product(name + "self_attn.k_proj.weight", in));
        rows.values.push_back(product(name + "self_attn.v_proj.weight", in));
        queries.push_back(rotated(rows.queries.back(), position));
        const Row keys = rotated(rows.keys.back(), position), &values = rows.values.back();
        for (std::size_t s = 0; s < sets.size(); ++s) {
          const std::size_t head = s * static_cast<std::size_t>(config.kv_heads) / sets.size();
          sets[s].positions.push_back(position);
          sets[s].keys.push_back(head_of(keys, head));
          sets[s].values.push_back(head_of(values, head));
        }
      }
      std::vector<Row> mixed(x.size());
      Attention probabilities;
      if (attention) {
        mixed = attention(rows);
      } else {
        probabilities = attend(sets, queries, first, mixed);
      }
      for (std::size_t r = 0; r < x.size(); ++r) {
        add(x[r], product(name + "self_attn.o_proj.weight", mixed[r]));
        const Row in = normed(x[r], name + "post_attention_layernorm.weight");
        Row gate = product(name + "mlp.gate_proj.weight", in);
        const Row up = product(name + "mlp.up_proj.weight", in);
        for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
        add(x[r], product(name + "mlp.down_proj.weight", gate));
      }
      after(l, sets, probabilities);
    }
    const Row last = normed(x.back(), "model.norm.weight");
    Row logits;
    for (std::size_t token = 0; token * hidden < table.size(); ++token) {
      // The output projection is the embedding matrix.
      logits.push_back(dot(&table[token * hidden], last.data(), hidden));
    }
    return logits;
  }

  /// All heads of x, rotated to a position.
  Row rotated(Row x, int position) const {
    const std::size_t half = frequencies_.size();
    for (std::size_t head = 0; head < x.size(); head += 2 * half) {
      for (std::size_t i = 0; i < half; ++i) {
        // The reference implementations compute the angle as a float32 product.
        const double angle = static_cast<float>(position) * frequencies_[i], a = x[head + i],
                     b = x[head + half + i];
        x[head + i] = a * std::cos(angle) - b * std::sin(angle);
        x[head + half + i] = b * std::cos(angle) + a * std::sin(angle);
      }
    }
    return x;
  }

  ModelConfig config;
  /// If set, replaces the decoder's attention and manages the cached tokens itself.  Returns the
  /// outputs of all heads for each row.
  std::function<std::vector<Row>(const PlainRows&)> attention = {};

 private:
  // Takes pointers because most of the time is spent here and tests are not optimized.
  static double dot(const double* a, const double* b, std::size_t n) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
  }

  Row product(const std::string& name, const Row& x) const {
    const Row& w = weights_.at(name);
    Row out(w.size() / x.size());
    for (std::size_t o = 0; o < out.size(); ++o) out[o] = dot(&w[o * x.size()], x.data(), x.size());
    return out;
  }

  Row normed(const Row& x, const std::string& name) const {
    double squares = 0;
    for (double v : x) squares += v * v;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) +
                                       static_cast<double>(config.norm_eps));
    Row out = weights_.at(name);
    for (std::size_t i = 0; i < x.size(); ++i) out[i] *= x[i] * scale;
    return out;
  }

  Row head_of(const Row& x, std::size_t head) const {
    const auto at = x.begin() + static_cast<std::ptrdiff_t>(head) * config.head_dim;
    return {at, at + config.head_dim};
  }

  static void add(Row& x, const Row& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  /// Softmax over the slots that a row sees; the weighted sums of the heads' values go to `mixed`
  /// [row].
  Attention attend(const PlainSets& sets, const std::vector<Row>& queries, int first,
                   std::vector<Row>& mixed) const {
    const auto heads = static_cast<std::size_t>(config.heads);
    Attention out(heads);
    for (std::size_t h = 0; h < heads; ++h) {
      const PlainSet& set = sets[h * sets.size() / heads];
      for (std::size_t r = 0; r < queries.size(); ++r) {
        const Row q = head_of(queries[r], h);
        Row p(set.positions.size(), 0), value(q.size(), 0);
        const auto sees = [&](std::size_t j) {
          return set.positions[j] <= first + static_cast<int>(r);
        };
        double sum = 0, top = -INFINITY;
        for (std::size_t j = 0; j < p.size(); ++j) {
          if (!sees(j)) continue;
          const double logit = dot(q.data(), set.keys[j].data(), q.size());
          top = std::max(top, p[j] = logit / std::sqrt(static_cast<double>(q.size())));
        }
        for (std::size_t j = 0; j < p.size(); ++j) {
          if (sees(j)) sum += p[j] = std::exp(p[j] - top);  // a trained model's scores are large
        }
        for (std::size_t j = 0; j < p.size(); ++j) {
          p[j] /= sum;
          for (std::size_t d = 0; d < q.size(); ++d) value[d] += p[j] * set.values[j][d];
        }
        mixed[r].insert(mixed[r].end(), value.begin(), value.end());
        out[h].push_back(std::move(p));
      }
    }
    return out;
  }

  std::map<std::string, Row> weights_;
  std::vector<float> frequencies_;
};

}  // namespace turnbench::test
