#include <algorithm>
#include <utility>
#include <vector>

#include "methods/parts/budgeted_eviction.h"
#include "methods/parts/key_similarity.h"
#include "methods/parts/layer_rows.h"
#include "methods/parts/softmax.h"

namespace turnbench {
namespace {

/// lambda * importance - (1 - lambda) * redundancy.  A kept set that reads several cached sets has
/// the mean of their scores.
class ImportanceAndRedundancy : public EvictionScorer {
 public:
  struct Settings {
    int window = 8, kernel = 7;
    Pooling pooling = Pooling::kMax;
    double lambda = 0.07;
  };
  explicit ImportanceAndRedundancy(const Settings& settings) : s_(settings) {}

  int window() const override { return s_.window; }

  std::vector<float> scores(const LayerView& view, const KeptSet& set,
                            int candidates) const override {
    std::vector<double> sums(static_cast<std::size_t>(candidates), 0);
    const std::vector<const KvHeadCache*> caches = caches_of(view, set);
    const int heads = set.heads / static_cast<int>(caches.size());
    for (std::size_t c = 0; c < caches.size(); ++c) {
      const int first = set.first_head + static_cast<int>(c) * heads;
      const std::vector<float> important = importance(view, *caches[c], first, heads, candidates);
      const std::vector<double> redundant = redundancy(view, *caches[c]);
      for (std::size_t i = 0; i < sums.size(); ++i)
        sums[i] += s_.lambda * important[i] - (1 - s_.lambda) * redundant[i];
    }
    std::vector<float> out;
    for (const double sum : sums)
      out.push_back(static_cast<float>(sum / static_cast<double>(caches.size())));
    return out;
  }

 private:
  /// Scores of the window's rows -> maximum over the heads -> softmax over the candidates -> mean
  /// over the rows -> pooled along the sequence: [candidates].
  std::vector<float> importance(const LayerView& view, const KvHeadCache& cache, int first_head,
                                int heads, int candidates) const {
    const QueryRows window = view.stats.window_queries(s_.window);
    const std::int64_t dims = view.shape.head_dim;
    std::vector<float> out(static_cast<std::size_t>(candidates), 0);
    KeyProducts products(view, cache, heads);
    for (int r = 0; r < window.rows(); ++r) {
      const float* queries = window.q.row(r) + first_head * dims;
      const std::vector<float> logits = products.of({queries, heads, dims}, view.scale);
      const int begin = view.sliding_window == 0
                            ? 0
                            : cache.lower_bound(window.positions[r] - view.sliding_window + 1);
      std::vector<double> most;  // of the candidates in the sliding window
      for (int i = begin; i < candidates; ++i) {
        float x = logits[static_cast<std::size_t>(i)];
        for (int h = 1; h < heads; ++h) x = std::max(x, logits[h * cache.size() + i]);
        most.push_back(x);
      }
      const std::vector<double> shares = softmax(std::move(most));
      for (std::size_t i = 0; i < shares.size(); ++i)
        out[begin + i] += static_cast<float>(shares[i] / window.rows());
    }
    return pool1d(out, s_.kernel, s_.pooling);
  }

  /// Mean similarity to the other keys, after removal of the last similar one of each row ->
  /// softmax over all tokens: [tokens].
  static std::vector<double> redundancy(const LayerView& view, const KvHeadCache& cache) {
    std::vector<double> means = similarity_sums(view, cache, kSimilar);
    for (double& x : means) x /= static_cast<double>(cache.size());
    return softmax(std::move(means));
  }

  static constexpr float kSimilar = 0.5f;  // cosine above which keys are similar

  Settings s_;
};

std::shared_ptr<const EvictionScorer> rkv_scorer(const Parameters& p) {
  ImportanceAndRedundancy::Settings settings{.window = p.integer("window")};
  if (p.has("mix")) {  // otherwise it is the scorer of another method
    settings.kernel = odd_kernel("rkv", p);
    settings.pooling = parse_pooling(p.choice("pool"));
    settings.lambda = p.number("mix");
  }
  return std::make_shared<ImportanceAndRedundancy>(settings);
}

/// Evicts at the end of a prompt and, with an interval, while decoding.
class RKv : public Cloned<RKv, EvictionPolicy> {
 public:
  RKv(BudgetedEviction::Settings settings, int interval)
      : at_end_(settings), s_(std::move(settings)), interval_(interval) {}

  int window() const override { return s_.scorer->window(); }
  KeepSets after_prefill(const LayerView& view) override {
    budgets_.resize(static_cast<std::size_t>(view.shape.layers));
    const int window = s_.window.window;
    budgets_[view.layer] = window + std::max(0, s_.window.budget.choices(view, window));
    return at_end_.after_prefill(view);
  }
  bool evicts_in_answers() const override { return interval_ > 0; }

  KeepSets after_decode(const LayerView& view) override {
    const int length = view.prompt_tokens + view.generated;
    if (budgets_.empty() || (length - 1) % interval_ != 0) return {};
    const int budget = budgets_[view.layer], window = s_.window.window;
    if (longest_set(view.sets) <= budget) return {};
    KeepSets out;
    for (const KeptSet& set : kept_sets(view, false)) {
      const int candidates = set.tokens - window;
      const std::vector<float> scores = s_.scorer->scores(view, set, candidates);
      out.slots.push_back(with_tail(top_k(scores, budget - window), candidates, set.tokens));
    }
    return out;
  }

 private:
  BudgetedEviction at_end_;
  BudgetedEviction::Settings s_;
  int interval_;
  std::vector<int> budgets_;  // [layers]: tokens, determined at the end of a prompt
};

}  // namespace

/// R-KV: keeps tokens with high attention whose keys are unlike those of other tokens: attention of
/// the last rows (importance) and cosine similarities of the keys (redundancy), both as shares that
/// sum to 1 -> weighted difference -> top-k (Cai et al., 2025; R1KV in the official code).
MethodInfo rkv() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "rkv",
      .summary = "keeps tokens with high attention whose keys are unlike those of other tokens",
      .paper = "Cai et al., R-KV: Redundancy-aware KV Cache Compression for Reasoning Models, 2025",
      .budget_unit =
          "tokens kept per KV head, window included, after each eviction; until the next one, "
          "generated tokens are kept in addition; mode=prefill: they are not counted",
      .deviations =
          "as in the official code: importance: q k / sqrt(head_dim) of the last `window` rows (in "
          "steps: of the prompt and of earlier steps, too) and the keys cached now, maximum over "
          "the query heads of a KV head, softmax over the tokens before the window, mean over "
          "the rows, pooling; redundancy: cosine similarities of all keys of a KV head, 0 of a key "
          "with itself; in each row, the similarity to the last key of those above 0.5, or to the "
          "first key if there is none, is set to 0; mean of each column, softmax over all tokens; "
          "score: mix * importance - (1 - mix) * redundancy; its time grows with the square of the "
          "cached tokens; a step attends before it evicts; keys are those after RoPE; ties go to "
          "the earlier token",
      .parameters =
          {{"budget", Kind::kBudget, "1024", "tokens or share", "tokens kept per KV head"},
           {"window", Kind::kInteger, "8", "tokens",
            "last tokens, whose attention is used, always kept", 1, 4096},
           {"kernel", Kind::kInteger, "7", "tokens", "width of the pooling kernel, odd", 1, 255},
           {"pool", Kind::kChoice, "max", "max|avg|none", "pooling of the importance"},
           {"mix", Kind::kNumber, "0.07", "",
            "weight of the importance (lambda); the rest is that of the redundancy", 0, 1},
           {"mode", Kind::kChoice, "dynamic", "dynamic|prefill",
            "dynamic: evict after the prompt and while decoding; prefill: only after the prompt"},
           {"interval", Kind::kInteger, "128", "tokens",
            "evict in steps before which the number of tokens, evicted ones included, is a "
            "multiple of this number",
            1, 1e6, "mode=dynamic"},
           layers_parameter()},
      .scorer = rkv_scorer,
      .make = [](const Parameters& p) {
        const int interval = p.choice("mode") == "dynamic" ? p.integer("interval") : 0;
        return Policies{
            .eviction = std::make_unique<RKv>(
                BudgetedEviction::Settings{.window = budget_and_window_settings("rkv", p),
                                           .scorer = rkv_scorer(p)},
                interval)};
      }};
}

}  // namespace turnbench
