#include <algorithm>
#include <numeric>

#include "methods/budgets.h"
#include "methods/window_scores.h"

namespace turnbench {
namespace {

class AdaKv : public EvictionPolicy {
 public:
  struct Settings {
    double alpha;
    bool exact, normalize;
    int skip;
  };
  AdaKv(const WindowSettings& window, const Settings& settings) : w_(window), s_(settings) {}
  std::unique_ptr<EvictionPolicy> clone() const override { return std::make_unique<AdaKv>(*this); }
  int window() const override { return w_.rows(); }
  std::vector<ColumnRule> columns() const override { return w_.columns(); }

  KeepSets after_prefill(const LayerView& view) override {
    const std::vector<KeptSet> sets = kept_sets(view, w_.per_query_head);
    const int base = w_.choices(view);  // tokens that a set chooses in the mean
    std::vector<int> candidates;
    for (const KeptSet& set : sets) candidates.push_back(std::max(0, set.tokens - w_.window));
    const int all = std::accumulate(candidates.begin(), candidates.end(), 0),
              total = base * static_cast<int>(sets.size());
    KeepSets out;
    if (total >= all || view.layer < s_.skip) {
      for (const KeptSet& set : sets) {
        out.slots.push_back(w_.kept(view, set, total >= all ? set.tokens : base));
      }
      return out;
    }
    std::vector<float> joint;
    std::vector<std::size_t> begin;
    for (const KeptSet& set : sets) {
      begin.push_back(joint.size());
      const std::vector<float> scores = w_.scores(view, set);
      const float weight = s_.normalize ? concentration(scores, base) : 1.0f;
      for (float x : scores) joint.push_back(x * weight);
    }
    std::vector<int> wanted(sets.size(), 0);
    for (std::int32_t j : top_k(joint, total)) {
      const auto next = std::upper_bound(begin.begin(), begin.end(), static_cast<std::size_t>(j));
      ++wanted[static_cast<std::size_t>(next - begin.begin()) - 1];
    }
    const std::vector<int> counts =
        safeguarded_budgets(wanted, candidates, base, s_.alpha, s_.exact);
    for (std::size_t h = 0; h < sets.size(); ++h) {
      const std::span<const float> own(joint.data() + begin[h],
                                       static_cast<std::size_t>(candidates[h]));
      out.slots.push_back(with_tail(top_k(own, counts[h]), candidates[h], sets[h].tokens));
    }
    return out;
  }

 private:
  /// The share of its mass that a head has in its `base` best tokens.
  static float concentration(const std::vector<float>& scores, int base) {
    double best = 0;
    for (std::int32_t j : top_k(scores, base)) best += scores[static_cast<std::size_t>(j)];
    const double all = std::accumulate(scores.begin(), scores.end(), 0.0);
    return all > 0 ? static_cast<float>(best / all) : 1.0f;
  }

  WindowSettings w_;
  Settings s_;
};

std::vector<ParameterInfo> ada_parameters() {
  using Kind = ParameterInfo::Kind;
  return and_also(
      window_parameters("1024", "32", "7"),
      {{"scorer", Kind::kChoice, "snapkv", "snapkv|h2o|tova|keyformer",
        "whose scores: attention from the window (pooled), from all rows, from the last row, or "
        "from all rows with noise"},
       {"floor_alpha", Kind::kNumber, "0.2", "share", "part of the budget that no set goes below",
        0, 1},
       {"ada_exact", Kind::kFlag, "true", "",
        "sets sum to the budget; false: each is rounded, as in the official code"},
       {"normalize", Kind::kFlag, "false", "",
        "scores times the share of a set's mass that its own best tokens hold"},
       {"skip", Kind::kInteger, "0", "layers", "first layers that share their budget equally"}});
}

Policies make_ada(std::string_view method, const Parameters& p) {
  WindowSettings window = window_settings(method, p);
  window.scorer = parse_scorer(p.choice("scorer"));
  window.budget.rule.short_equal = false;  // KVCache-Factory's, not Ada-KV's
  Policies out;
  out.eviction = std::make_unique<AdaKv>(window, AdaKv::Settings{.alpha = p.number("floor_alpha"),
                                                                 .exact = p.flag("ada_exact"),
                                                                 .normalize = p.flag("normalize"),
                                                                 .skip = p.integer("skip")});
  return out;
}

constexpr std::string_view kPaper =
    "Feng et al., Ada-KV: Optimizing KV Cache Eviction by Adaptive Budget Allocation for Efficient "
    "LLM Inference, 2024";

}  // namespace

/// SnapKV, or another method that scores tokens, whose budget goes, within a layer, to the heads
/// whose tokens score best.
MethodInfo adakv() {
  return {.name = "adakv",
          .summary = "a layer's budget shared out to its heads by SnapKV's or another's scores",
          .paper = kPaper,
          .budget_unit =
              "prompt tokens kept per set in the mean over a layer's sets, the window included; "
              "generated tokens come on top",
          .deviations =
              "sets sum to the budget exactly, where the official code rounds each "
              "(ada_exact=false); one kept set per KV head by default, where it keeps one per "
              "query head (gran=query_head); floor_alpha is that of its LongBench runs (its "
              "README says 0.5); other scores than SnapKV's are compositions of this project",
          .parameters = and_also(ada_parameters(), {layers_parameter()}),
          .make = [](const Parameters& p) { return make_ada("adakv", p); }};
}

/// AdaKV within layers whose budgets are PyramidKV's.
MethodInfo ada_pyramidkv() {
  return {
      .name = "ada-pyramidkv",
      .summary = "PyramidKV's budgets per layer, AdaKV's per head",
      .paper = kPaper,
      .budget_unit =
          "prompt tokens kept per set in the mean over all layers and sets, the window included; "
          "generated tokens come on top",
      .deviations =
          "as adakv and pyramidkv; layer budgets follow each prompt, where the official code "
          "computes them once from the first",
      .parameters = and_also(ada_parameters(), pyramid_parameters()),
      .make = [](const Parameters& p) { return make_ada("ada-pyramidkv", p); }};
}

}  // namespace turnbench
