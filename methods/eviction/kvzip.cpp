#include <iterator>

#include "common/error.h"
#include "methods/parts/budget_parameters.h"
#include "methods/parts/reconstruction_scores.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

class KvZip : public Cloned<KvZip, EvictionPolicy> {
 public:
  KvZip(LayerBudget budget, const ReconstructionScores::Settings& settings)
      : budget_(std::move(budget)), settings_(settings) {}

  bool keeps_unequal_sets() const override { return true; }
  std::unique_ptr<ScoringPasses> scoring_passes(int prompt_tokens) const override {
    if (budget_.tokens(prompt_tokens) >= prompt_tokens) return nullptr;
    return std::make_unique<ReconstructionScores>(settings_);
  }
  KeepSets after_prefill(const LayerView& view) override {
    if (view.scoring == nullptr) return {};
    if (view.layer == 0) choose(view);
    return kept_.empty() ? KeepSets{} : std::move(kept_[view.layer]);
  }

 private:
  /// The tokens with the highest scores of all layers and sets.
  void choose(const LayerView& view) {
    const auto& result = static_cast<const ReconstructionScores&>(*view.scoring);
    const int n = view.prompt_tokens, budget = budget_.tokens(n);
    kept_.clear();
    if (n <= settings_.sinks) return;
    if (budget < n && budget <= settings_.sinks) {
      throw input_error("kvzip: found a budget of {} tokens of {}, expected more than the {} sinks",
                        budget, n, settings_.sinks);
    }
    std::vector<std::vector<float>> sets;  // of all layers
    std::int64_t tokens = 0;
    for (const auto& layer : result.scores()) {
      for (const std::vector<float>& set : layer) tokens += std::ssize(sets.emplace_back(set));
    }
    const std::int64_t total = static_cast<std::int64_t>(budget) * std::ssize(sets);
    if (total >= tokens) return;
    std::vector<std::vector<std::int32_t>> best = top_k_of_rows(sets, total);
    auto next = std::make_move_iterator(best.begin());
    for (const auto& layer : result.scores()) {
      const auto end = next + std::ssize(layer);
      kept_.emplace_back().slots.assign(next, end);
      next = end;
    }
  }

  LayerBudget budget_;
  ReconstructionScores::Settings settings_;
  std::vector<KeepSets> kept_;  // [layers] while the layers of a prompt evict; empty: all tokens
};

}  // namespace

/// Keeps the tokens that receive the most attention while the model repeats the prompt: the largest
/// scores of all layers and KV heads (Kim et al., 2025, section 3).
MethodInfo kvzip() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "kvzip",
      .summary = "keeps the tokens with the highest attention while the model repeats the prompt",
      .paper =
          "Kim et al., KVzip: Query-Agnostic KV Cache Compression with Context Reconstruction, "
          "2025",
      .budget_unit =
          "prompt tokens kept per KV head, as a mean over all layers and heads, sinks included; "
          "generated tokens are not counted",
      .deviations =
          "instructions and chunks as in kvpress (KVzipPress); a repeated part ends with what the "
          "template writes before the answer of this turn; the template's text before the "
          "first message is kept first, as in the official code (kvpress: only the sinks), and "
          "counts in the budget; the budget is exact (official code: a threshold); by default, the "
          "question is repeated and scored, too: compress=before_question is the paper's setting; "
          "in later turns, the whole dialogue is repeated, including evicted tokens; the pairs of "
          "the additional passes count as computed pairs of the prompt; no combination with a "
          "selection",
      .parameters = {{"budget", Kind::kBudget, "1024", "tokens or share",
                      "prompt tokens kept per set, a mean over all layers and sets"},
                     {"sinks", Kind::kInteger, "4", "tokens", "first tokens, always kept", 0, 4096},
                     {"chunk", Kind::kInteger, "2048", "tokens",
                      "tokens that one additional pass repeats", 16, 1e6}},
      .make =
          [](const Parameters& p) {
            const int sinks = checked_sinks("kvzip", p);
            return Policies{.eviction = std::make_unique<KvZip>(
                                layer_budget("kvzip", p),
                                ReconstructionScores::Settings{p.integer("chunk"), sinks})};
          },
      .compared_as = {{"chunk", ""}}};
}

}  // namespace turnbench
