#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inference/engine/engine.h"
#include "methods/actions/action.h"
#include "methods/parts/anchor_map.h"

namespace turnbench {

/// Attention of some queries to the tokens before them, in one KV head of one layer: probabilities,
/// summed over the query heads.
struct HeadAttention {
  std::vector<std::vector<float>> rows;  ///< [queries][tokens that the query sees]
};

/// What one prompt contributes to the choice of anchors.
struct PromptAttention {
  std::vector<std::vector<HeadAttention>> layers;  ///< [layers][kv_heads]
  /// [layers]: mean over the queries of 1 - cos(x, x + attention output), where x are the hidden
  /// states before the layer's attention.
  std::vector<double> importance;
};

/// The attention of the last `queries` tokens before a dialogue's gold answer, and of the answer.
PromptAttention measure_prompt(Engine& engine, const TokenizedDialogue& dialogue, int queries);

/// Kascade's choice of anchor layers and of the heads that they replace (Deshmukh et al., 2025).
class AnchorSearch {
 public:
  /// k: tokens of a selection.
  void add(const PromptAttention& prompt, int k);
  int prompts() const { return prompts_; }

  /// For layers a <= b, the mean over the heads of b of the share of their top-k attention that the
  /// best head of a finds with its own top-k, times the importance of b; 0 for a > b.  A head's
  /// share is the smallest over the queries of a prompt, averaged over the prompts.
  /// [layers][layers]
  std::vector<std::vector<double>> similarity() const;
  /// The `anchors` layers, of which layer 0 is one, that maximize the sum over all layers of the
  /// similarity to the last anchor before them, and the best head of the anchor for each head.
  /// Ties go to the lower layer and head.
  AnchorMap find(int anchors) const;

 private:
  /// The mean share of head `of` of layer b that head `by` of layer a finds.
  double share(int a, int by, int b, int of) const;

  int prompts_ = 0, layers_ = 0, heads_ = 0;
  std::vector<double> shares_;      ///< [layers, heads, layers, heads]: sums over the prompts
  std::vector<double> importance_;  ///< [layers]: sums
};

}  // namespace turnbench
