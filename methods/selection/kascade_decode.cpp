#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "inference/model/model_config.h"
#include "methods/method.h"
#include "methods/parts/anchor_map.h"
#include "methods/parts/shared_selection.h"

namespace turnbench {
namespace {

constexpr std::array kAnchors = {0, 2, 8, 13, 14};  ///< of the 32 layers of Llama 3.1 8B

class KascadeDecode : public Cloned<KascadeDecode, SharedSelection> {
 public:
  struct Settings {
    Budget budget;
    std::vector<int> anchors;             ///< none: by the number of the model's layers
    int dense_layers;                     ///< first layers, which read all tokens
    std::vector<std::vector<int>> heads;  ///< [layers][kv_heads]; none: each head its own
  };
  explicit KascadeDecode(Settings s) : s_(std::move(s)) {}

 protected:
  /// Dense layers may select for later ones.
  LayerRole role(int layer, const ModelShape& shape) const override {
    const int anchor =
        std::max(0, SelectingLayers{s_.anchors, kAnchors}.last_at(layer, shape.layers));
    return {.selects = layer == anchor, .source = layer < s_.dense_layers ? -1 : anchor};
  }
  TokenRule rule(int prompt_tokens) const override {
    return {.tokens = std::max(1, s_.budget.tokens(prompt_tokens)),
            .reduction = HeadReduction::kSumOfSoftmax};
  }
  std::span<const int> source_heads(int layer) const override {
    return s_.heads.empty() ? std::span<const int>() : s_.heads[layer];
  }

 private:
  Settings s_;
};

}  // namespace

MethodAction calibrate_kascade();  // methods/actions/

/// Kascade (Deshmukh et al., 2025), for decode steps: anchor layers compute an exact top-k, and the
/// layers after them reuse its tokens, head by head.
MethodInfo kascade_decode() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "kascade-decode",
      .summary = "reads tokens that the attention of a few anchor layers selects",
      .paper =
          "Deshmukh et al., Kascade: A Practical Sparse Attention Method for Long-Context LLM "
          "Inference, 2025",
      .budget_unit =
          "tokens read per KV head and step, the current token and generated ones included; dense "
          "layers read all tokens",
      .deviations =
          "decode steps only (official code: decode_only_kascade; Kascade also has a sparse "
          "prefill); without a map, the anchors are those of the official file for Llama 3.1 8B, "
          "at the same relative depths of other models (rounded down), and each head reads the "
          "tokens of the anchor's head with the same index; models of fewer than 16 layers have "
          "two anchors, layer 0 and the layer at a quarter; a budget that is a share refers to the "
          "prompt (official code: all tokens, and at least 128), so even 100% leaves out as many "
          "tokens as the answer has; the current token is always read (official code: if it is "
          "among the best); with an eviction, a layer reads the selected tokens that it has kept; "
          "layers that select or read all tokens stay on the device; probabilities below e^-87 "
          "count as 0, so their tokens are ties, which go to the earlier token",
      .parameters = {{"budget", Kind::kBudget, "0.1", "tokens or share", "tokens read per step"},
                     {"map", Kind::kFile, "none", "file of a model",
                      "file of anchors and heads for a model, as `method kascade-decode calibrate` "
                      "writes it"},
                     {.name = "anchors",
                      .kind = Kind::kLayerList,
                      .fallback = "auto",
                      .unit = "layers",
                      .description =
                          "layers that select, layer 0 in any case; auto: layers 0, 2, "
                          "8, 13 and 14 of 32, and at these relative depths of other models",
                      .only_with = "map=none"},
                     {"dense_layers", Kind::kInteger, "1", "layers",
                      "first layers, which read all tokens"}},
      .make =
          [](const Parameters& p) {
            const auto file = p.file("map");
            AnchorMap map = file ? AnchorMap::load(*file)
                                 : AnchorMap{.anchors = p.layer_list("anchors"), .heads = {}};
            return Policies{.selection = std::make_unique<KascadeDecode>(
                                KascadeDecode::Settings{.budget = p.budget("budget"),
                                                        .anchors = std::move(map.anchors),
                                                        .dense_layers = p.integer("dense_layers"),
                                                        .heads = std::move(map.heads)})};
          },
      .placement = {{"cache_block", "1"}, {"cache_rule", "previous"}},
      .check_model =
          [](const Parameters& p, const ModelConfig& config) {
            if (const auto file = p.file("map"))
              AnchorMap::load(*file).check_shape(config.layers, config.kv_heads);
          },
      .actions = {calibrate_kascade}};
}

}  // namespace turnbench
