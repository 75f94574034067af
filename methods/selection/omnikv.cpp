#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "methods/method.h"
#include "methods/parts/shared_selection.h"

namespace turnbench {
namespace {

constexpr std::array kFilters = {2, 8, 18};  ///< of the 32 layers of Llama 3 8B

class OmniKv : public Cloned<OmniKv, SharedSelection> {
 public:
  struct Settings {
    Budget budget;
    std::vector<int> filters;  ///< layers that select; none: by the number of the model's layers
    int wait;                  ///< layers after each filter that read all tokens
    HeadReduction reduction;
    bool one_list;
  };
  explicit OmniKv(Settings s) : s_(std::move(s)) {}

 protected:
  /// Filters, the layers before the first one, and those that wait for the transfers of the
  /// selected tokens read all tokens.
  LayerRole role(int layer, const ModelShape& shape) const override {
    const int filter = SelectingLayers{s_.filters, kFilters}.last_at(layer, shape.layers);
    const bool reads_all = filter < 0 || layer - filter <= s_.wait;
    return {.selects = layer == filter, .source = reads_all ? -1 : filter};
  }
  TokenRule rule(int prompt_tokens) const override {
    return {.tokens = s_.budget.tokens(prompt_tokens),
            .prompt_only = true,
            .one_list = s_.one_list,
            .reduction = s_.reduction};
  }

 private:
  Settings s_;
};

}  // namespace

/// OmniKV (Hao et al., 2025), Algorithm 1: a few layers (filters) select the tokens that the layers
/// after them read.
MethodInfo omnikv() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "omnikv",
      .summary = "reads, in most layers, prompt tokens that the attention of a few layers selects",
      .paper =
          "Hao et al., OmniKV: Dynamic Context Selection for Efficient Long-Context LLMs, 2025",
      .budget_unit =
          "prompt tokens read per step in layers that share a selection; tokens of the answer are "
          "read in addition; all other layers read all tokens",
      .deviations =
          "filters, wait and budget are those of the official example for Llama 3 8B; in other "
          "models, the filters are at the same relative depths (rounded down); models of fewer "
          "than 16 layers have one filter, at a quarter of the layers; the official code's two "
          "other scoring rules, uniform and exp, which use the queries of the last 16 steps, are "
          "not available; level=head is this project's; with placement=host, a step loads only the "
          "selected tokens that the previous step did not read (official code: all selected "
          "tokens); with an eviction, a layer reads the selected tokens that it has kept; "
          "evictions "
          "while decoding are refused; layers that select or read all tokens stay on the device; "
          "ties go to the earlier token",
      .parameters =
          {{"budget", Kind::kBudget, "0.067", "tokens or share", "prompt tokens read per step"},
           {"filters", Kind::kLayerList, "auto", "layers",
            "layers that select; they and the layers before the first one read all "
            "tokens; auto: layers 2, 8 and 18 of 32, and at these relative depths of other models"},
           {"wait", Kind::kInteger, "1", "layers",
            "number of layers after each filter that read all tokens; the selected "
            "tokens are transferred while these layers run"},
           {"score", Kind::kChoice, "logit", "logit|softmax",
            "score of a token: maximum over the query heads of q k, or of the "
            "probabilities among the prompt's tokens"},
           {"level", Kind::kChoice, "batch", "batch|head",
            "the same tokens for all KV heads, or separate ones"}},
      .make =
          [](const Parameters& p) {
            return Policies{
                .selection = std::make_unique<OmniKv>(OmniKv::Settings{
                    .budget = p.budget("budget"),
                    .filters = p.layer_list("filters"),
                    .wait = p.integer("wait"),
                    .reduction = p.choice("score") == "logit" ? HeadReduction::kMax
                                                              : HeadReduction::kMaxOfLogSoftmax,
                    .one_list = p.choice("level") == "batch"})};
          },
      .placement = {{"cache_block", "1"}, {"cache_rule", "previous"}},
      .compared_as = {{"filters", "dense_layers"}}};
}

}  // namespace turnbench
