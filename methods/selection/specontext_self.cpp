#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/error.h"
#include "inference/backend/backend.h"
#include "inference/kv/slot_set.h"
#include "methods/method.h"
#include "methods/parts/scores.h"
#include "methods/parts/step_tokens.h"

namespace turnbench {
namespace {

class SpeContextSelf : public Cloned<SpeContextSelf, SelectionPolicy>, public SelectsAhead {
 public:
  struct Settings {
    Budget budget;
    int sinks;   ///< first tokens, always read
    int layer;   ///< the selecting layer; -1: a quarter of the layers, rounded up
    bool batch;  ///< one set of tokens for all KV heads
  };
  explicit SpeContextSelf(const Settings& s) : s_(s) {}

  std::optional<int> deciding_layer(const ModelShape& shape) const override {
    return chooser(shape);
  }

  void after_prefill(const LayerView& view) override {
    if (view.layer == chooser(view.shape)) lists_ = s_.batch ? 1 : view.sets.size();
  }

  /// Each step reads all keys of the selecting layer, and all tokens of the layers before it.
  DeviceNeeds demand(const PromptSize& size, const LayerView* known) const override {
    DeviceNeeds out = needs_of_steps(size, budget(size.prompt_tokens));
    out.everything |= size.layer <= chooser(size.shape);
    if (known == nullptr || out.everything || lists_ <= known->sets.size()) return out;
    return needs_of_steps(size, budget(size.prompt_tokens),
                          static_cast<int>(lists_ / known->sets.size()));
  }

  /// In the selecting layer: attention of each query head -> maximum over the heads of a KV head ->
  /// the best tokens.  Later layers read the same tokens.
  Selection select(const LayerView& view) override {
    const int first = chooser(view.shape), tokens = budget(view.prompt_tokens);
    if (view.layer < first) return {};
    if (view.layer == first) step_ = {view.first_position, choose(view, tokens)};
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

  int budget(int prompt_tokens) const {
    return step_budget(s_.budget.tokens(prompt_tokens), s_.sinks);
  }

  /// The candidates in the selecting layer.
  struct Candidates {
    /// Ascending, of all sets together; empty if each set has its own candidates.
    std::vector<std::int32_t> positions;
    /// [sets][candidates]: slots of the candidates, -1 if the query does not see a candidate; empty
    /// if all slots are candidates.
    std::vector<std::vector<std::int32_t>> slots;
  };

  Candidates candidates(const LayerView& view) const {
    Candidates out;
    const auto complete = [&](const KvHeadCache& set) {
      return set.size() == view.first_position + 1;
    };
    if (s_.batch && !std::all_of(view.sets.begin(), view.sets.end(), complete)) {
      SlotSet kept(view.first_position + 1);
      for (const KvHeadCache& set : view.sets) {
        for (int j = 0; j < set.size(); ++j) kept.add(set.position(j));
      }
      kept.append_to(out.positions);
    }
    for (const KvHeadCache& set : view.sets) {
      std::vector<std::int32_t>& slots = out.slots.emplace_back(slots_in_window(view, set));
      if (out.positions.empty()) continue;
      const std::vector<std::int32_t> seen = std::exchange(slots, {});
      int slot = 0;
      for (const std::int32_t position : out.positions) {
        const bool has = slot < set.size() && set.position(slot) == position;
        const bool sees = has && (seen.empty() || seen[slot] >= 0);
        slots.push_back(sees ? slot : -1);
        slot += has ? 1 : 0;
      }
    }
    return out;
  }

  /// Positions of the tokens with the highest probabilities of any query head of a KV head or, for
  /// one list, of any query head: [lists].
  std::vector<std::vector<std::int32_t>> choose(const LayerView& view, int tokens) const {
    const Candidates from = candidates(view);
    const auto count = [&](std::size_t set) {
      return from.positions.empty() ? view.sets[set].size() : std::ssize(from.positions);
    };
    const std::int64_t heads = view.heads_per_set(), per_list = s_.batch ? view.shape.heads : heads;
    std::int64_t floats = 0;
    for (std::size_t s = 0; s < view.sets.size(); ++s) floats += (heads + 1) * count(s);
    float* memory = view.scratch->floats(static_cast<std::size_t>(floats));
    std::vector<KeyScoreJob> scoring;
    std::vector<ReduceHeadsJob> reducing;
    const MatrixView q(view.queries.data, view.shape.heads, view.shape.head_dim);
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      const std::int64_t n = count(s), first_head = static_cast<std::int64_t>(s) * heads;
      const MatrixView<float> scores(memory, per_list, n);  // of one list, list after list
      scoring.push_back(
          {&view.sets[s], q.rows_at(first_head, heads), from.slots[s], scores.rows_at(0, heads)});
      if (!s_.batch || s == 0)
        reducing.push_back({scores, HeadReduction::kMaxOfLogSoftmax, {nullptr, 1, n}});
      memory += heads * n;
    }
    std::vector<std::span<const float>> weights;
    for (ReduceHeadsJob& job : reducing) {
      job.out.data = memory;
      memory += job.out.columns;
      weights.emplace_back(job.out.data, static_cast<std::size_t>(job.out.columns));
    }
    view.backend->score_keys(view.scale, scoring);
    view.backend->reduce_heads(reducing);
    std::vector<std::vector<std::int32_t>> out =
        best_tokens(*view.backend, weights, tokens, s_.sinks);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const KvHeadCache& set = view.sets[i];
      if (from.positions.empty() && set.is_contiguous()) continue;
      for (std::int32_t& at : out[i]) {
        at = from.positions.empty() ? set.position(at) : from.positions[at];
      }
    }
    return out;
  }

  Settings s_;
  std::size_t lists_ = 1;  ///< lists of selected tokens
  StepTokens step_;        ///< of the current step
};

}  // namespace

/// SpeContext's sharing without its retrieval head: one layer of the model itself selects the
/// tokens that this layer and all deeper ones read.
MethodInfo specontext_self() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "specontext-self",
      .summary = "reads, in all upper layers, tokens that the attention of one layer selects",
      .paper =
          "none: a variant of Xu et al., SpeContext: Enabling Efficient Long-context Reasoning "
          "with Speculative Context Sparsity in LLMs, 2025, without a retrieval head",
      .budget_unit =
          "tokens read per KV head and step in layer d and the upper layers, the current token "
          "and generated ones included",
      .deviations =
          "not SpeContext, where a retrieval head selects tokens before the first layer; for "
          "models without such a head; SpeContext's sharing of tokens between layers, its "
          "budget and its transfer of changed tokens only; the choice of layer d, whose "
          "selection the upper layers read, is this project's; layers up to d stay on the "
          "device; with an eviction, a layer reads the selected tokens that it has kept; ties "
          "go to the earlier token",
      .parameters = {{"budget", Kind::kBudget, "2048", "tokens or share",
                      "tokens read per step in layer d and the upper layers"},
                     {"d", Kind::kInteger, "-1", "layer",
                      "layer that selects; layers before it read everything; -1: a quarter of "
                      "the layers, rounded up",
                      -1},
                     {"level", Kind::kChoice, "head", "head|batch",
                      "separate tokens per KV head, or the same for all"},
                     sinks_parameter()},
      .make =
          [](const Parameters& p) {
            return Policies{.selection = std::make_unique<SpeContextSelf>(SpeContextSelf::Settings{
                                .budget = p.budget("budget"),
                                .sinks = checked_sinks("specontext-self", p),
                                .layer = p.integer("d"),
                                .batch = p.choice("level") == "batch"})};
          },
      .placement = {{"placement", "host"}, {"cache_block", "1"}, {"cache_rule", "previous"}},
      .compared_as = {{"d", "dense_layers"}}};
}

}  // namespace turnbench
