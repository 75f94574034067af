#include <algorithm>

#include "common/error.h"
#include "methods/method.h"
#include "methods/scores.h"
#include "methods/step_tokens.h"

namespace turnbench {
namespace {

class SpeContextSelf : public SelectionPolicy {
 public:
  struct Settings {
    Budget budget;
    int layer;   ///< that chooses; -1: a quarter of the layers, rounded up
    bool batch;  ///< one set of tokens for all KV heads
  };
  explicit SpeContextSelf(const Settings& s) : s_(s) {}

  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<SpeContextSelf>(*this);
  }

  void after_prefill(const LayerView& view) override {
    if (view.layer == chooser(view.shape)) lists_ = s_.batch ? 1 : view.sets.size();
  }

  DeviceNeeds device_needs(const LayerView& view) const override {
    const PromptSize size = prompt_size(view);
    DeviceNeeds out = expected_needs(size);
    if (out.everything || lists_ <= view.sets.size()) return out;
    return needs_of_steps(size, budget(size.prompt_tokens),
                          static_cast<int>(lists_ / view.sets.size()));
  }

  /// All keys of the layer that chooses are read in each step, and all tokens of those before it.
  DeviceNeeds expected_needs(const PromptSize& size) const override {
    DeviceNeeds out = needs_of_steps(size, budget(size.prompt_tokens));
    out.everything |= size.layer <= chooser(size.shape);
    return out;
  }

  /// In the layer that chooses: attention of each query head -> its greatest in a KV head -> the
  /// best tokens.  Later layers read the same.
  Selection select(const LayerView& view) override {
    const int first = chooser(view.shape), tokens = budget(view.prompt_tokens);
    if (view.layer < first) return {};
    if (view.layer == first) step_ = best_tokens(weights(view), tokens);
    return read_in_layer(view, step_, tokens);
  }

 private:
  int chooser(const ModelShape& shape) const {
    if (s_.layer >= shape.layers) {
      throw input_error("specontext-self: d: found {}, expected a layer of the model, 0 to {}",
                        s_.layer, shape.layers - 1);
    }
    return s_.layer >= 0 ? s_.layer : std::min((shape.layers + 3) / 4, shape.layers - 1);
  }

  int budget(int prompt_tokens) const { return step_budget(s_.budget.tokens(prompt_tokens)); }

  /// The greatest probability that a query head of a KV head gives to each token: [KV heads] or,
  /// over all heads, [1], each by position.
  std::vector<std::vector<float>> weights(const LayerView& view) const {
    const HeadScores& attention = view.stats.window_mass(1);  // [query heads, n]
    const int heads = view.heads_per_set(), positions = view.first_position + 1;
    std::vector<std::vector<float>> out(
        s_.batch ? 1 : view.sets.size(),
        std::vector<float>(static_cast<std::size_t>(positions), kNoToken));
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      const KvHeadCache& set = view.sets[s];
      const std::vector<float> greatest =
          group_scores(attention, static_cast<int>(s) * heads, heads, set.size(), GroupRule::kMax);
      std::vector<float>& row = out[s_.batch ? 0 : s];
      for (int j = 0; j < set.size(); ++j) {
        float& weight = row[static_cast<std::size_t>(set.position(j))];
        weight = std::max(weight, greatest[static_cast<std::size_t>(j)]);
      }
    }
    return out;
  }

  Settings s_;
  std::size_t lists_ = 1;  ///< of tokens that are chosen
  StepTokens step_;        ///< of the current step
};

}  // namespace

/// SpeContext's sharing without its retrieval head: one layer of the model itself chooses the
/// tokens that all layers from there on read.
MethodInfo specontext_self() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "specontext-self",
      .summary = "one layer's attention chooses the tokens that all later layers read",
      .paper =
          "no paper's: what Xu et al., SpeContext: Enabling Efficient Long-context Reasoning with "
          "Speculative Context Sparsity in LLMs, 2025, can be without a retrieval head",
      .budget_unit =
          "tokens read per KV head and step from layer d on, the current token and generated ones "
          "included",
      .deviations =
          "not SpeContext, whose tokens a retrieval head chooses before the first layer, but its "
          "sharing of tokens between layers, its budget and its loading of what changed, for "
          "models without such a head: layer d, after which the others follow, is decided here, "
          "and layers up to it stay on the device; beside an eviction a layer reads what it has "
          "kept of the tokens chosen; equal weights: the earlier token",
      .parameters = {{"budget", Kind::kBudget, "2048", "tokens or share",
                      "tokens read per step from layer d on"},
                     {"d", Kind::kInteger, "-1", "layer",
                      "that chooses, and before which everything is read; -1: a quarter of the "
                      "layers, rounded up",
                      -1},
                     {"level", Kind::kChoice, "head", "head|batch",
                      "whether each KV head has tokens of its own, or all have the same"}},
      .make =
          [](const Parameters& p) {
            Policies out;
            out.selection = std::make_unique<SpeContextSelf>(
                SpeContextSelf::Settings{.budget = p.budget("budget"),
                                         .layer = p.integer("d"),
                                         .batch = p.choice("level") == "batch"});
            return out;
          },
      .placement = {{"placement", "host"}, {"cache_block", "1"}, {"cache_rule", "previous"}}};
}

}  // namespace turnbench
