#include <algorithm>
#include <memory>

#include "common/error.h"
#include "methods/method.h"
#include "methods/parts/shared_selection.h"

namespace turnbench {
namespace {

class SpeContextSelf : public Cloned<SpeContextSelf, SharedSelection> {
 public:
  struct Settings {
    Budget budget;
    int sinks;   ///< first tokens, always read
    int layer;   ///< the selecting layer; -1: a quarter of the layers, rounded up
    bool batch;  ///< one set of tokens for all KV heads
  };
  explicit SpeContextSelf(const Settings& s) : s_(s) {}

 protected:
  LayerRole role(int layer, const ModelShape& shape) const override {
    const int chooser = chooser_of(shape);
    return {.selects = layer == chooser, .source = layer < chooser ? -1 : chooser};
  }
  /// The maximum of the probabilities of a list's query heads.
  TokenRule rule(int prompt_tokens) const override {
    return {.tokens = step_budget(s_.budget.tokens(prompt_tokens), s_.sinks),
            .sinks = s_.sinks,
            .one_list = s_.batch};
  }

 private:
  int chooser_of(const ModelShape& shape) const {
    if (s_.layer >= shape.layers) {
      throw input_error("specontext-self: d: found {}, expected a layer of the model, 0 to {}",
                        s_.layer, shape.layers - 1);
    }
    return s_.layer >= 0 ? s_.layer : std::min((shape.layers + 3) / 4, shape.layers - 1);
  }

  Settings s_;
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
