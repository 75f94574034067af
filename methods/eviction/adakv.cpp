#include <algorithm>
#include <numeric>

#include "methods/parts/budget_sharing.h"
#include "methods/parts/kept_sets.h"
#include "methods/parts/window_settings.h"

namespace turnbench {
namespace {

/// The scores of the tokens before the window.
enum class Scorer {
  kSnapKv,    ///< attention of the window's rows, pooled
  kH2o,       ///< attention of all rows
  kTova,      ///< attention of the last row
  kKeyformer  ///< attention of all rows, with Gumbel noise
};

Scorer parse_scorer(const std::string& name) {
  return name == "h2o"         ? Scorer::kH2o
         : name == "tova"      ? Scorer::kTova
         : name == "keyformer" ? Scorer::kKeyformer
                               : Scorer::kSnapKv;
}

class AdaKv : public EvictionPolicy {
 public:
  struct Settings {
    Scorer scorer;
    double floor_alpha;
    bool exact, normalize;
    int skipped_layers;
  };
  AdaKv(const WindowSettings& window, const Settings& settings) : w_(window), s_(settings) {}
  std::unique_ptr<EvictionPolicy> clone() const override { return std::make_unique<AdaKv>(*this); }

  /// Number of last rows that the scorer sums; 0: all rows.
  int window() const override {
    return s_.scorer == Scorer::kSnapKv ? w_.window : s_.scorer == Scorer::kTova ? 1 : 0;
  }
  std::vector<ColumnRule> columns() const override {
    if (window() > 0) return {};
    return {{.gumbel = s_.scorer == Scorer::kKeyformer, .temperature = 1}};
  }

  bool keeps_unequal_sets() const override { return s_.floor_alpha < 1; }

  KeepSets after_prefill(const LayerView& view) override {
    const std::vector<KeptSet> sets = kept_sets(view, w_.per_query_head);
    const int base = w_.choices(view);  // mean number of tokens that a set chooses
    std::vector<int> candidates;        // [sets]: tokens before the window
    for (const KeptSet& set : sets) candidates.push_back(std::max(0, set.tokens - w_.window));
    KeepSets out;
    if (base * static_cast<int>(sets.size()) >= sum_of(candidates)) {
      for (const KeptSet& set : sets) out.slots.push_back(all_slots(set.tokens));
      return out;
    }
    std::vector<std::vector<float>> scores;  // [sets][candidates]
    for (std::size_t h = 0; h < sets.size(); ++h)
      scores.push_back(this->scores(view, sets[h], candidates[h]));
    std::vector<int> budgets(sets.size(), base);  // [sets]: tokens that each chooses
    if (view.layer >= s_.skipped_layers) {
      if (s_.normalize) weigh_by_concentration(scores, base);
      const std::vector<int> wanted = joint_counts(scores, base * static_cast<int>(sets.size()));
      budgets = safeguarded_budgets(wanted, candidates, base, s_.floor_alpha, s_.exact);
    }
    for (std::size_t h = 0; h < sets.size(); ++h) {
      const std::vector<std::int32_t> chosen = top_k(scores[h], budgets[h]);  // [budgets[h]]
      out.slots.push_back(with_tail(chosen, candidates[h], sets[h].tokens));
    }
    return out;
  }

 private:
  static int sum_of(const std::vector<int>& x) { return std::accumulate(x.begin(), x.end(), 0); }

  /// Attention of the scorer's rows, summed -> reduced over the heads of the set -> pooled (SnapKV
  /// only): [candidates].
  std::vector<float> scores(const LayerView& view, const KeptSet& set, int candidates) const {
    const HeadScores& attention =  // [query heads, n]
        window() > 0 ? view.stats.window_mass(window())
                     : view.stats.column_mass(columns()[0]).scores;
    const std::vector<float> reduced =
        group_scores(attention, set.first_head, set.heads, candidates, w_.group);
    return s_.scorer == Scorer::kSnapKv ? pool1d(reduced, w_.kernel, w_.pooling) : reduced;
  }

  /// Multiplies the scores of a set by the share of its `base` best tokens in their sum.
  static void weigh_by_concentration(std::vector<std::vector<float>>& scores, int base) {
    for (std::vector<float>& own : scores) {
      double best = 0;
      for (std::int32_t j : top_k(own, base)) best += own[static_cast<std::size_t>(j)];
      const double all = std::accumulate(own.begin(), own.end(), 0.0);
      const float share = all > 0 ? static_cast<float>(best / all) : 1.0f;
      for (float& x : own) x *= share;
    }
  }

  /// The number of scores of each set among the `total` best scores of all sets: [sets].
  static std::vector<int> joint_counts(const std::vector<std::vector<float>>& scores, int total) {
    std::vector<float> joint;  // [sets * candidates]
    std::vector<std::size_t> set_of;
    for (std::size_t h = 0; h < scores.size(); ++h) {
      joint.insert(joint.end(), scores[h].begin(), scores[h].end());
      set_of.resize(joint.size(), h);
    }
    std::vector<int> out(scores.size(), 0);
    for (std::int32_t j : top_k(joint, total)) ++out[set_of[static_cast<std::size_t>(j)]];
    return out;
  }

  WindowSettings w_;
  Settings s_;
};

std::vector<ParameterInfo> ada_parameters() {
  using Kind = ParameterInfo::Kind;
  return and_also(
      window_parameters("1024", "32", "7"),
      {{"scorer", Kind::kChoice, "snapkv", "snapkv|h2o|tova|keyformer",
        "method whose scores are used: attention of the window's rows (pooled), of all rows, of "
        "the last row, or of all rows with Gumbel noise"},
       {"floor_alpha", Kind::kNumber, "0.2", "share",
        "minimum number of tokens that a set chooses, as a share of the mean over the layer's sets",
        0, 1},
       {"ada_exact", Kind::kFlag, "true", "",
        "the sets' numbers of tokens sum to the budget; false: each is rounded separately, as in "
        "the official code"},
       {"normalize", Kind::kFlag, "false", "",
        "multiply a set's scores by the share of its total score that its best tokens have"},
       {"skip", Kind::kInteger, "0", "layers",
        "number of first layers whose sets have equal budgets"}});
}

Policies make_ada(std::string_view method, const Parameters& p) {
  WindowSettings window = window_settings(method, p);
  window.budget.rule.short_equal = false;  // KVCache-Factory's, not Ada-KV's
  Policies out;
  out.eviction =
      std::make_unique<AdaKv>(window, AdaKv::Settings{.scorer = parse_scorer(p.choice("scorer")),
                                                      .floor_alpha = p.number("floor_alpha"),
                                                      .exact = p.flag("ada_exact"),
                                                      .normalize = p.flag("normalize"),
                                                      .skipped_layers = p.integer("skip")});
  return out;
}

constexpr std::string_view kPaper =
    "Feng et al., Ada-KV: Optimizing KV Cache Eviction by Adaptive Budget Allocation for Efficient "
    "LLM Inference, 2024";

}  // namespace

/// Scores of SnapKV, H2O, TOVA or Keyformer, with a budget that is shared within a layer in favour
/// of the heads with the best tokens (Ada-KV, Algorithm 1): scores of each head -> joint top-k of
/// all heads -> its counts per head, never below floor_alpha of the mean -> top-k of each head, and
/// the window.
MethodInfo adakv() {
  return {.name = "adakv",
          .summary =
              "divides a layer's budget among its heads by the scores of SnapKV, H2O, TOVA or "
              "Keyformer",
          .paper = kPaper,
          .budget_unit =
              "prompt tokens kept per set, as a mean over a layer's sets, window included; "
              "generated tokens are not counted",
          .deviations =
              "sets sum to the budget exactly; the official code rounds each (ada_exact=false); "
              "one kept set per KV head by default; the official code keeps one per query head "
              "(gran=query_head); floor_alpha is that of the official LongBench runs (the README "
              "has 0.5); the paper uses SnapKV's scores; those of H2O, TOVA and Keyformer are "
              "combinations of this project; no other scores are accepted",
          .parameters = and_also(ada_parameters(), {layers_parameter()}),
          .make = [](const Parameters& p) { return make_ada("adakv", p); }};
}

/// Ada-KV with the layer budgets of PyramidKV (pyramid_budgets in budget_sharing.cpp).
MethodInfo ada_pyramidkv() {
  return {.name = "ada-pyramidkv",
          .summary = "PyramidKV's budgets per layer, divided among the heads as in AdaKV",
          .paper = kPaper,
          .budget_unit =
              "prompt tokens kept per set, as a mean over all layers and sets, window included; "
              "generated tokens are not counted",
          .deviations =
              "those of adakv and pyramidkv; layer budgets are computed for each prompt; the "
              "official code computes them once, from the first prompt",
          .parameters = and_also(ada_parameters(), pyramid_parameters()),
          .make = [](const Parameters& p) { return make_ada("ada-pyramidkv", p); }};
}

}  // namespace turnbench
