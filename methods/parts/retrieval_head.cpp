#include "methods/parts/retrieval_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/error.h"
#include "common/random.h"
#include "inference/backend/pass_size.h"
#include "inference/model/rope.h"
#include "inference/policy/cloned.h"

namespace turnbench {
namespace {

constexpr std::uint64_t kRandomSeed = 20251;

/// Rows of a checkpoint's matrix, or random rows: columns [first, first + in).
std::unique_ptr<WeightMatrix> matrix(const RetrieverPass& pass, const DraftCheckpoint* checkpoint,
                                     const std::string& name, std::int64_t out, std::int64_t in,
                                     std::int64_t first = 0) {
  std::unique_ptr<WeightMatrix> m =
      pass.backend.make_matrix(out, in, pass.weight_dtype, Math::kF32);
  if (checkpoint == nullptr) {  // variance 1 / in keeps results at one scale
    std::vector<float> row(in);
    Random random = Random::from({kRandomSeed, seed_of(name), static_cast<std::uint64_t>(first)});
    const double scale = std::sqrt(12.0 / static_cast<double>(in));
    for (std::int64_t r = 0; r < out; ++r) {
      for (float& x : row) x = static_cast<float>((random.uniform() - 0.5) * scale);
      m->set_rows(r, reinterpret_cast<const std::byte*>(row.data()), DType::kF32, 1);
    }
    return m;
  }
  const TensorView& tensor = *checkpoint->find(name);
  const std::size_t size = size_of(tensor.dtype);
  const std::size_t stride = static_cast<std::size_t>(tensor.shape[1]) * size;
  for (std::int64_t r = 0; r < out; ++r) {
    const std::byte* row = tensor.bytes.data() + static_cast<std::size_t>(r) * stride +
                           static_cast<std::size_t>(first) * size;
    m->set_rows(r, row, tensor.dtype, 1);
  }
  checkpoint->release(tensor);
  return m;
}

/// A vector of a checkpoint; all ones for random weights, empty if it is optional and absent.
WeightVector vector(const RetrieverPass& pass, const DraftCheckpoint* checkpoint,
                    const std::string& name, int size, bool may_be_absent = false) {
  std::vector<float> values(size, 1.0f);
  const TensorView* tensor = checkpoint != nullptr ? checkpoint->find(name) : nullptr;
  if (tensor == nullptr && may_be_absent) return {};
  for (std::size_t i = 0; tensor != nullptr && i < values.size(); ++i) {
    alignas(4) std::array<std::byte, 4> element;
    const std::size_t bytes = size_of(tensor->dtype);
    std::memcpy(element.data(), tensor->bytes.data() + i * bytes, bytes);
    values[i] = load_element(element.data(), tensor->dtype, 0);
  }
  return WeightVector(values, pass.backend.memory());
}

/// The weights of a head in a backend's memory, which all sequences share.
struct HeadWeights {
  HeadWeights(const RetrievalHeadSettings& settings, const RetrieverPass& pass);

  DraftShape shape;
  std::unique_ptr<WeightMatrix> q, k;  ///< [heads * head_dim, input], [kv_heads * head_dim, input]
  WeightVector q_bias, k_bias, q_norm, k_norm, embedding_norm, feature_norm;
  std::unique_ptr<WeightMatrix> embedding;             ///< null: the target model's
  std::vector<std::unique_ptr<WeightMatrix>> feature;  ///< per layer read: [hidden, target]
  std::vector<float> frequencies;
  double rope_factor = 1;  ///< of cosines and sines

  std::int64_t q_width() const { return std::int64_t{shape.heads} * shape.head_dim; }
  std::int64_t k_width() const { return std::int64_t{shape.kv_heads} * shape.head_dim; }
  bool reads_features() const { return !feature.empty(); }
  std::int64_t input() const { return (reads_features() ? 2 : 1) * std::int64_t{shape.hidden}; }
};

HeadWeights::HeadWeights(const RetrievalHeadSettings& settings, const RetrieverPass& pass)
    : shape(head_shape(settings, pass.config)) {
  const DraftCheckpoint* from = settings.checkpoint.get();
  const int hidden = shape.hidden;
  // Without features, only the first half of the columns, which is multiplied by the embedding, is
  // used.
  const std::int64_t width = (settings.previous_features ? 2 : 1) * std::int64_t{hidden};
  q = matrix(pass, from, "self_attn.q_proj.weight", q_width(), width);
  k = matrix(pass, from, "self_attn.k_proj.weight", k_width(), width);
  const int q_size = static_cast<int>(q_width()), k_size = static_cast<int>(k_width());
  q_bias = vector(pass, from, "self_attn.q_proj.bias", q_size, true);
  k_bias = vector(pass, from, "self_attn.k_proj.bias", k_size, true);
  q_norm = vector(pass, from, "self_attn.q_norm.weight", shape.head_dim, true);
  k_norm = vector(pass, from, "self_attn.k_norm.weight", shape.head_dim, true);
  embedding_norm = vector(pass, from, "input_layernorm.weight", hidden);
  if (shape.own_embedding) {
    const std::int64_t tokens = from->find("embed_tokens.weight")->shape[0];
    if (tokens < pass.config.vocab) {
      throw input_error("{}: found embeddings of {} tokens, expected the model's {}",
                        from->folder(), tokens, pass.config.vocab);
    }
    embedding = matrix(pass, from, "embed_tokens.weight", pass.config.vocab, hidden);
  }
  if (settings.previous_features) {
    feature_norm = vector(pass, from, "hidden_norm.weight", hidden);
    for (std::size_t i = 0; i < shape.features(); ++i) {
      feature.push_back(matrix(pass, from, "fc.weight", hidden, shape.target_hidden,
                               static_cast<std::int64_t>(i) * shape.target_hidden));
    }
  }
  RopeConfig rope;
  rope.theta = shape.rope_theta;
  rope.scaling = RopeConfig::Scaling::kYarn;
  rope.original_max_positions = settings.original;
  rope.factor = std::max(1.0, static_cast<double>(settings.longest) / settings.original);
  frequencies = rope_frequencies(rope, shape.head_dim);
  rope_factor = 0.1 * std::log(rope.factor) + 1;
}

class RetrievalHead : public Cloned<RetrievalHead, Retriever> {
 public:
  explicit RetrievalHead(const RetrievalHeadSettings& settings)
      : settings_(settings), key_(settings.key()) {}

  const std::string& key() const override { return key_; }

  bool reads_layer(const ModelConfig&, int layer) const override {
    if (!settings_.previous_features) return false;
    const std::vector<int>& layers = weights_->shape.feature_layers;
    return std::find(layers.begin(), layers.end(), layer) != layers.end();
  }

  void begin_pass(const RetrieverPass& pass) override {
    if (weights_ == nullptr) {
      weights_ = pass.resources.get<HeadWeights>(
          key_, [&] { return std::make_shared<HeadWeights>(settings_, pass); });
      keys_.assign(weights_->shape.kv_heads, KvHeadCache(pass.key_pool(weights_->shape.head_dim)));
    }
    const int n = static_cast<int>(pass.tokens.size());
    if (!weights_->reads_features()) {
      append(pass, n, nullptr);
      return;
    }
    const int before = n - pass.rows;
    if (seen_ != before || (seen_ > 0 && feature_ == nullptr)) {
      throw input_error(
          "feat=prev: found {} tokens whose hidden states are not known, expected none: a prompt "
          "is computed with it, and no token is taken back",
          feature_ == nullptr ? before : before - seen_);
    }
    if (seen_ > 0) append(pass, seen_, feature_->as<float>());
    const std::size_t size =
        static_cast<std::size_t>(pass.rows) * static_cast<std::size_t>(weights_->shape.hidden);
    features_ = std::make_shared<Buffer>(size * sizeof(float), pass.backend.memory());
    parts_ = 0;
  }

  void enter_layer(const RetrieverPass& pass, int layer, MatrixView<const float> hidden) override {
    const std::vector<int>& layers = weights_->shape.feature_layers;
    const std::int64_t width = weights_->shape.hidden;
    float* features = features_->as<float>();
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (layers[i] != layer) continue;
      for (std::int64_t r = 0; r < pass.rows; r += kLinearBlockRows) {
        const std::int64_t count = std::min(kLinearBlockRows, pass.rows - r);
        float* out = parts_ == 0 ? features + r * width
                                 : pass.scratch.get(static_cast<std::size_t>(count * width));
        pass.backend.linear(hidden.rows_at(r, count), *weights_->feature[i], nullptr,
                            {out, count, width});
        if (parts_ > 0) pass.backend.add(features + r * width, out, count * width);
      }
      ++parts_;
    }
    if (parts_ < layers.size()) return;
    // All rows except the last token's use the following token.
    const int n = static_cast<int>(pass.tokens.size());
    append(pass, n - 1, features);
    auto last = std::make_shared<Buffer>(static_cast<std::size_t>(width) * sizeof(float),
                                         pass.backend.memory());
    pass.backend.memory()->copy(
        std::array{copy_of(features + (pass.rows - 1) * width, last->as<float>(), width)});
    feature_ = std::move(last);
    features_.reset();
    seen_ = n;
  }

  MatrixView<const float> weights(const RetrieverPass& pass, int lists) override {
    const HeadWeights& w = *weights_;
    const DraftShape& shape = w.shape;
    const std::int64_t rows = this->rows(), first = w.reads_features() ? 1 : 0;
    Step step = last_query(pass, lists);
    const std::int64_t group = shape.heads / shape.kv_heads;
    std::vector<KeyScoreJob> scoring;
    for (std::int64_t h = 0; h < shape.kv_heads; ++h) {
      scoring.push_back(
          {&keys_[h], step.q.rows_at(h * group, group), {}, step.scores.rows_at(h * group, group)});
    }
    std::vector<ReduceHeadsJob> reducing;
    std::vector<Copy> always;
    for (std::int64_t t = 0; t < lists; ++t) {
      const auto [begin, end] = heads_of_list(shape.heads, lists, t);
      const MatrixView<float> out = step.weights.rows_at(t, 1);
      reducing.push_back({step.scores.rows_at(begin, end - begin), HeadReduction::kMaxOfLogSoftmax,
                          out.columns_at(first, rows)});
      if (first == 1) always.push_back(copy_of(&kAlways, out.data, 1));  // has no row, so no score
    }
    const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_dim)));
    pass.backend.score_keys(scale, scoring);
    pass.backend.reduce_heads(reducing);
    pass.backend.memory()->copy(always);
    return step.weights;
  }

  void truncate(std::int32_t tokens) override {
    const int rows = std::max(0, settings_.previous_features ? tokens - 1 : tokens);
    for (KvHeadCache& set : keys_) {
      if (set.size() > rows) set.truncate(rows);
    }
    if (seen_ <= tokens) return;
    seen_ = tokens;
    feature_.reset();
  }

  std::size_t key_bytes() const override {
    std::size_t out = 0;
    for (const KvHeadCache& set : keys_)
      out += static_cast<std::size_t>(set.size()) * set.layout().row_bytes(KvRow::kKey);
    return out;
  }

 private:
  static constexpr float kAlways = 2;  // more than any log-probability

  int rows() const { return keys_.front().size(); }
  /// The index of the token whose embedding a row uses.
  int token_of(int row) const { return weights_->reads_features() ? row + 1 : row; }

  /// Normed inputs of rows [first, first + count): [count, input], in the scratch memory, followed
  /// by `more` floats.  features: [count, hidden], or null.
  MatrixView<float> inputs(const RetrieverPass& pass, int first, std::int64_t count,
                           const float* features, std::int64_t more) const {
    const HeadWeights& w = *weights_;
    const std::int64_t hidden = w.shape.hidden;
    float* memory = pass.scratch.get(static_cast<std::size_t>(count * (w.input() + hidden) + more));
    const MatrixView<float> in(memory, count, w.input());
    const MatrixView<float> embedded(memory + count * w.input() + more, count, hidden);
    pass.backend.embed(w.embedding != nullptr ? *w.embedding : pass.embedding,
                       pass.tokens.subspan(token_of(first), count), embedded.data);
    pass.backend.rms_norm(embedded, w.embedding_norm.data(), w.shape.norm_eps,
                          in.columns_at(0, hidden));
    if (features != nullptr) {
      pass.backend.rms_norm(MatrixView<const float>(features, count, hidden), w.feature_norm.data(),
                            w.shape.norm_eps, in.columns_at(hidden, hidden));
    }
    return in;
  }

  /// Computes x = RoPE(norm(in . matrix)) at positions first, first + 1, ...  tables: [2 * rows,
  /// head_dim / 2], scratch.
  void project(const RetrieverPass& pass, MatrixView<const float> in, const WeightMatrix& m,
               const WeightVector& bias, const WeightVector& norm, int first, float* tables,
               MatrixView<float> x) const {
    const HeadWeights& w = *weights_;
    const std::int64_t dim = w.shape.head_dim, half = dim / 2, angles = in.rows * half;
    pass.backend.linear(in, m, bias.data(), x);
    if (norm.data() != nullptr) {
      pass.backend.rms_norm_heads(x, w.shape.head_dim, static_cast<int>(x.columns / dim),
                                  norm.data(), norm.data(), w.shape.norm_eps);
    }
    const auto positions = slots_between(first, first + static_cast<std::int32_t>(in.rows));
    std::vector<float> host(2 * angles);
    rope_tables(w.frequencies, w.rope_factor, positions, host.data(), host.data() + angles);
    pass.backend.memory()->copy(std::array{copy_of(host.data(), tables, host.size())});
    pass.backend.apply_rope(x, MatrixView<const float>(tables, in.rows, half),
                            MatrixView<const float>(tables + angles, in.rows, half));
  }

  /// Appends rows until there are `end`.  features: of the missing rows.
  void append(const RetrieverPass& pass, int end, const float* features) {
    const HeadWeights& w = *weights_;
    const std::int64_t dim = w.shape.head_dim;
    while (rows() < end) {
      const int first = rows();
      const std::int64_t count = std::min<std::int64_t>(kLinearBlockRows, end - first);
      const MatrixView<float> in =
          inputs(pass, first, count, features, count * (w.k_width() + dim));
      const MatrixView<float> keys(in.data + count * w.input(), count, w.k_width());
      project(pass, in, *w.k, w.k_bias, w.k_norm, first, keys.data + count * w.k_width(), keys);
      const auto positions = slots_between(first, first + static_cast<std::int32_t>(count));
      std::vector<AppendJob> jobs;
      for (std::size_t h = 0; h < keys_.size(); ++h) {
        keys_[h].extend(positions);
        jobs.push_back(
            {&keys_[h], first, keys.columns_at(static_cast<std::int64_t>(h) * dim, dim)});
      }
      pass.backend.append(jobs);
      if (features != nullptr) features += count * w.shape.hidden;
    }
  }

  /// Intermediate results of a step, in the scratch memory.
  struct Step {
    MatrixView<float> q;        ///< [heads, head_dim]
    MatrixView<float> scores;   ///< [heads, rows]
    MatrixView<float> weights;  ///< [lists, tokens]
  };
  /// Prepares a step and computes the queries of the last row.
  Step last_query(const RetrieverPass& pass, std::int64_t lists) const {
    const HeadWeights& w = *weights_;
    const std::int64_t last = rows() - 1, heads = w.shape.heads, dim = w.shape.head_dim,
                       tokens = token_of(rows() - 1) + 1;
    const float* feature = w.reads_features() ? feature_->as<float>() : nullptr;
    const MatrixView<float> in =
        inputs(pass, rows() - 1, 1, feature, w.q_width() + dim + heads * rows() + lists * tokens);
    float* at = in.data + w.input();
    const MatrixView<float> x(at, 1, w.q_width());
    at += w.q_width();
    project(pass, in, *w.q, w.q_bias, w.q_norm, static_cast<int>(last), at, x);
    at += dim;
    return {{x.data, heads, dim}, {at, heads, rows()}, {at + heads * rows(), lists, tokens}};
  }

  RetrievalHeadSettings settings_;
  std::string key_;
  std::shared_ptr<const HeadWeights> weights_;
  std::vector<KvHeadCache> keys_;  ///< [kv_heads] of the draft; values are not written
  // With features:
  int seen_ = 0;                      ///< tokens whose features were computed
  std::shared_ptr<Buffer> feature_;   ///< of the last one, [hidden]; null: unknown
  std::shared_ptr<Buffer> features_;  ///< of the current pass, [rows, hidden]
  std::size_t parts_ = 0;             ///< number of layers summed so far
};

}  // namespace

std::string RetrievalHeadSettings::key() const {
  return fmt::format("head {} {} {} {}", name, previous_features ? "prev" : "none", longest,
                     original);
}

DraftShape head_shape(const RetrievalHeadSettings& settings, const ModelConfig& config) {
  DraftShape s;
  if (settings.checkpoint) {
    s = settings.checkpoint->shape();
    const std::string& place = settings.checkpoint->folder();
    if (s.target_hidden != config.hidden) {
      throw input_error("{}: found a draft for a model with hidden_size {}, expected {}", place,
                        s.target_hidden, config.hidden);
    }
    if (!settings.previous_features) return s;
    if (s.feature_layers.empty()) {
      if (config.layers <= 6) {
        throw input_error(
            "{}: found no eagle_aux_hidden_state_layer_ids, expected them for a model of {} "
            "layers: the usual ones (2, the middle, the last but two) need seven",
            place, config.layers);
      }
      s.feature_layers = {2, config.layers / 2, config.layers - 3};
    }
    for (const int layer : s.feature_layers) {
      if (layer < config.layers) continue;
      throw input_error("{}: found hidden states of layer {}, expected one of 0 to {}", place,
                        layer, config.layers - 1);
    }
    return s;
  }
  s.hidden = s.target_hidden = config.hidden;
  s.heads = config.heads;
  s.kv_heads = config.kv_heads;
  s.head_dim = config.head_dim;
  s.norm_eps = config.norm_eps;
  const bool few = config.layers <= 6;
  s.feature_layers = {few ? 0 : 2, config.layers / 2, config.layers - (few ? 1 : 3)};
  return s;
}

std::size_t head_bytes(const RetrievalHeadSettings& settings, const ModelConfig& config,
                       DType weights) {
  const DraftShape s = head_shape(settings, config);
  const std::size_t hidden = static_cast<std::size_t>(s.hidden),
                    inputs = (settings.previous_features ? 2 : 1) * hidden;
  std::size_t elements = static_cast<std::size_t>((s.heads + s.kv_heads) * s.head_dim) * inputs;
  if (s.own_embedding) elements += static_cast<std::size_t>(config.vocab) * hidden;
  if (settings.previous_features)
    elements += s.features() * static_cast<std::size_t>(s.target_hidden) * hidden;
  return elements * size_of(weights);
}

std::unique_ptr<Retriever> make_retrieval_head(const RetrievalHeadSettings& settings) {
  return std::make_unique<RetrievalHead>(settings);
}

HeadShare heads_of_list(std::int64_t heads, std::int64_t lists, std::int64_t list) {
  const std::int64_t begin = list * heads / lists;
  return {begin, std::max((list + 1) * heads / lists, begin + 1)};
}

}  // namespace turnbench
