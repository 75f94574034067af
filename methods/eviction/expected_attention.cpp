#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "inference/model/rope.h"
#include "methods/parts/budgeted_eviction.h"
#include "methods/parts/layer_rows.h"

namespace turnbench {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

struct Settings {
  int sinks = 4, future = 512;
  bool covariance = true, value_norms = true;
  double epsilon = 0;
};

Matrix as_matrix(const RowsOnHost& rows) {
  using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<const Floats>(rows.row(0).data(), rows.rows(), rows.width()).cast<double>();
}

/// The mean of the rotations to `count` positions from `first` on: [head_dim, head_dim].
Matrix mean_rotation(const LayerView& view, int first, int count) {
  const std::vector<std::int32_t> positions = slots_between(first, first + count);
  const int half = view.shape.head_dim / 2;
  const RopeAngles& rope = view.shape.rope;
  std::vector<float> cos(positions.size() * half), sin(cos.size());
  rope_tables(rope.frequencies, rope.attention_factor, positions, cos.data(), sin.data());
  Matrix out = Matrix::Zero(2 * half, 2 * half);
  for (int p = 0; p < count; ++p) {
    for (int i = 0; i < half; ++i) {
      const double c = cos[p * half + i], s = sin[p * half + i];
      out(i, i) += c;
      out(i + half, i + half) += c;
      out(i, i + half) -= s;
      out(i + half, i) += s;
    }
  }
  return out / count;
}

/// Scores by the attention that queries of the next positions are expected to pay.
class ExpectedAttention : public EvictionScorer {
 public:
  explicit ExpectedAttention(const Settings& settings) : s_(settings) {}
  std::optional<int> query_moments() const override { return s_.sinks; }
  std::vector<float> scores(const LayerView& view, const KeptSet& set,
                            int candidates) const override;

 private:
  std::vector<float> of_all_tokens(const LayerView& view, const KeptSet& set) const;

  Settings s_;
};

std::vector<float> ExpectedAttention::scores(const LayerView& view, const KeptSet& set,
                                             int candidates) const {
  const std::string key =
      fmt::format("expected attention of heads {} + {}: {} {} {} {} {}", set.first_head, set.heads,
                  s_.sinks, s_.future, s_.covariance, s_.value_norms, s_.epsilon);
  std::vector<float> out = *shared_result<std::vector<float>>(view.memo, key, [&] {
    return std::make_shared<std::vector<float>>(of_all_tokens(view, set));
  });
  out.resize(static_cast<std::size_t>(candidates));
  return out;
}

/// For each query head: softmax of k mu / sqrt(d) + k C k / (2 d) over the keys k behind the sinks,
/// with mean mu and covariance C of the queries -> mean over heads of its product with the norm of
/// the value.  Sinks score 1 more than the best token.  [set.tokens]
std::vector<float> ExpectedAttention::of_all_tokens(const LayerView& view,
                                                    const KeptSet& set) const {
  const QueryMoments& moments = view.stats.query_moments(s_.sinks);
  const int sinks = std::min(s_.sinks, set.tokens), d = view.shape.head_dim;
  const int next = view.first_position + view.rows;
  const auto rotation = shared_result<Matrix>(
      view.memo, fmt::format("mean rotation {} {}", next, s_.future),
      [&] { return std::make_shared<Matrix>(mean_rotation(view, next, s_.future)); });
  Eigen::VectorXd sums = Eigen::VectorXd::Zero(set.tokens - sinks), norms;
  Matrix keys;
  const KvHeadCache* read = nullptr;  // whose rows are in `keys` and `norms`
  for (int h = set.first_head; h < set.first_head + set.heads && sums.size() > 0; ++h) {
    const KvHeadCache& cache = cache_of_head(view, h);
    if (&cache != read) {
      keys = as_matrix(RowsOnHost(view, cache, KvRow::kKey, sinks, set.tokens));
      if (s_.value_norms) {
        const RowsOnHost values(view, cache, KvRow::kValue, sinks, set.tokens);
        norms = as_matrix(values).rowwise().norm();
      }
      read = &cache;
    }
    Eigen::VectorXd logits = Eigen::VectorXd::Zero(keys.rows());
    if (moments.rows() > 0) {
      const std::vector<double> mean = moments.mean(h), covariance = moments.covariance(h);
      logits =
          keys * (*rotation * Eigen::Map<const Eigen::VectorXd>(mean.data(), d)) / std::sqrt(d);
      if (s_.covariance) {
        const Matrix c =
            *rotation * Eigen::Map<const Matrix>(covariance.data(), d, d) * rotation->transpose();
        logits += (keys * c).cwiseProduct(keys).rowwise().sum() / (2 * d);
      }
    }
    Eigen::VectorXd weights = (logits.array() - logits.maxCoeff()).exp();
    weights = (weights / weights.sum()).array() + s_.epsilon;
    if (s_.value_norms) weights = weights.cwiseProduct(norms);
    sums += weights / set.heads;
  }
  const double most = sums.size() > 0 ? sums.maxCoeff() : 0;
  std::vector<float> out(static_cast<std::size_t>(set.tokens), static_cast<float>(most + 1));
  for (Eigen::Index i = 0; i < sums.size(); ++i) out[sinks + i] = static_cast<float>(sums[i]);
  return out;
}

std::shared_ptr<const EvictionScorer> expected_attention_scorer(const Parameters& p) {
  if (!p.has("future")) return std::make_shared<ExpectedAttention>(Settings());
  return std::make_shared<ExpectedAttention>(Settings{p.integer("sinks"), p.integer("future"),
                                                      p.flag("covariance"), p.flag("value_norms"),
                                                      p.number("epsilon")});
}

}  // namespace

/// Keeps the tokens to which future queries are expected to attend (Devoto et al., 2025).
MethodInfo expected_attention() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "expected-attention",
      .summary = "keeps the tokens to which queries of the next positions are expected to attend",
      .paper =
          "Devoto et al., Expected Attention: KV Cache Compression by Estimating Attention "
          "from Future Queries Distribution, 2025",
      .budget_unit =
          "prompt tokens kept per KV head, sinks and window included; generated tokens are not "
          "counted",
      .deviations =
          "order, sinks and norms as in kvpress (ExpectedAttentionPress); evicts once, at the end "
          "of a prompt; the moments are those of the rows of the prompt that is computed before "
          "the eviction: on a kept cache, neither those of decoded answers nor, with "
          "compress=before_question, those of the previous question",
      .parameters =
          {{"budget", Kind::kBudget, "1024", "tokens or share", "prompt tokens kept per set"},
           {"window", Kind::kInteger, "0", "tokens",
            "last tokens of the prompt, always kept; 0 as in kvpress, whose prompts end before the "
            "question: a question at the end can be evicted",
            0, 4096},
           {"sinks", Kind::kInteger, "4", "tokens",
            "first tokens, always kept; the rows of these positions are not in the moments", 0,
            4096},
           {"future", Kind::kInteger, "512", "positions",
            "next positions over which rotations are averaged", 1, 65536},
           {"covariance", Kind::kFlag, "true", "",
            "the scores depend on the covariance of the queries, not only on their mean"},
           {"value_norms", Kind::kFlag, "true", "", "scores are multiplied by norms of values"},
           {"epsilon", Kind::kNumber, "0", "",
            "added to the expected attention probability before the multiplication", 0, 1,
            "value_norms=true"},
           layers_parameter()},
      .scorer = expected_attention_scorer,
      .make = [](const Parameters& p) {
        WindowSettings window = budget_and_window_settings("expected-attention", p);
        window.sinks = p.integer("sinks");
        check_room("expected-attention", window.budget.mean, window.window + window.sinks,
                   fmt::format("{} sinks and a window of {}", window.sinks, window.window));
        return Policies{.eviction = std::make_unique<BudgetedEviction>(BudgetedEviction::Settings{
                            .window = window, .scorer = expected_attention_scorer(p)})};
      }};
}

}  // namespace turnbench
