#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "inference/backend/backend.h"
#include "inference/policy/policy.h"
#include "methods/parts/step_tokens.h"

namespace turnbench {

/// What a decode step does in a layer of a method whose layers share selections.
struct LayerRole {
  bool selects = false;  ///< chooses tokens by its own attention
  /// The layer whose tokens it reads: the last selecting layer at or before its own; -1: it reads
  /// all tokens.
  int source = -1;
};

/// How a selecting layer chooses tokens.
struct TokenRule {
  int tokens = 0;  ///< per list
  int sinks = 0;   ///< first tokens, always chosen; counted in `tokens`
  /// Only tokens of the prompt are candidates; steps read the answer's tokens in addition, which
  /// must not be evicted.  Otherwise all tokens are candidates, and the current one is always
  /// chosen.
  bool prompt_only = false;
  bool one_list = false;  ///< the same tokens for all sets of a layer
  HeadReduction reduction = HeadReduction::kMaxOfLogSoftmax;  ///< over the query heads of a list
};

/// Chooses tokens in some layers; layers between them read the tokens of an earlier one.
class SharedSelection : public SelectionPolicy, public SelectsAhead {
 public:
  SelectionTraits traits() const final { return {.needs_whole_answers = rule(1).prompt_only}; }
  void after_prefill(const LayerView& view) final;
  /// Steps read all keys of selecting layers, and all tokens of layers without a source.
  DeviceNeeds demand(const PromptSize& size, const LayerView* known) const final;
  /// The answer, if steps read it in addition.
  std::vector<SlotRange> pinned(int layer, int set, int tokens) const final;
  LayerRange known_after(int layer, const ModelShape& shape) const final;
  Selection select(const LayerView& view) final;

 protected:
  /// @throws Error (input) if the method's settings do not fit the model.
  virtual LayerRole role(int layer, const ModelShape& shape) const = 0;
  virtual TokenRule rule(int prompt_tokens) const = 0;
  /// The KV head of the source whose tokens each KV head of a layer reads; empty: its own.
  virtual std::span<const int> source_heads(int /*layer*/) const { return {}; }

 private:
  std::size_t lists_ = 1;  ///< lists of a selecting layer
  /// Tokens of the prompt in each layer and set; empty if steps do not read the answer in addition.
  std::vector<std::vector<std::int32_t>> prompt_;
  StepTokens step_;  ///< chosen last
};

/// Layers of a model: given ones or, if none are given, its layers at some depths.  In a model of
/// fewer than 16 layers, only depths of whole quarters count: others would leave few layers
/// between.
struct SelectingLayers {
  std::vector<int> given;         ///< ascending
  std::span<const int> in_32nds;  ///< ascending depths: 8 is the layer at a quarter of all layers

  /// The last of the layers that is at most `layer`; -1 if there is none.
  int last_at(int layer, int model_layers) const;
};

}  // namespace turnbench
