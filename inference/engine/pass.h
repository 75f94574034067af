#pragma once

#include <span>
#include <vector>

#include "inference/engine/sequence.h"
#include "inference/model/matrix_view.h"
#include "inference/policy/layer_view.h"
#include "inference/policy/selection.h"

namespace turnbench {

/// What the attention of a layer gives to the same hidden states in two sequences, in host memory:
/// [rows, heads * head_dim] before the output projection.
struct AttentionOutputs {
  int layer = 0;
  MatrixView<const float> own, followed;
};

/// Observes the layers of a pass, in order, without changing what it computes.
class LayerObserver {
 public:
  virtual ~LayerObserver() = default;
  /// Called in a decode step of a sequence with a selection policy, before the layer's attention.
  /// view: of the step; its keys are complete.  selection: what attention reads.
  virtual void selection(const LayerView& /*view*/, const Selection& /*selection*/) {}
  /// Called for a pass that follows another one, after the layer's attention and before the pass
  /// takes over the outputs of that one.
  virtual void outputs(const AttentionOutputs& /*outputs*/) {}
};

/// The part of one sequence in a forward pass.
struct Pass {
  enum class Kind { kPrefill, kDecode };
  Sequence* sequence = nullptr;
  std::span<const int> tokens = {};
  Kind kind = Kind::kPrefill;
  const DialogueView* dialogue = nullptr;  ///< may be null if the policies do not need it
  /// Prefill only: the prompt ends with this pass.  Then eviction policies run, and selection
  /// policies build their indices.
  bool prompt_end = false;
  /// If false, the eviction policy is not called, neither in prefill nor in decode.
  bool evict = true;
  /// Sequences that share this prefill.  At the end of the prompt, each becomes what `sequence`
  /// would be with the fork's eviction and selection policies; `sequence` itself keeps all tokens.
  /// Earlier passes of the prompt must name the forks too if their policies use column masses.
  std::vector<Sequence*> forks = {};
  bool all_logits = false;  ///< return the logits of all rows, not only of the last
  /// An earlier pass of the same batch with as many rows, which this one follows: after each
  /// layer's attention it goes on with that one's outputs, so that every layer of both has the same
  /// hidden states.  -1: none.
  int follows = -1;
  LayerObserver* observer = nullptr;  ///< may be null
};

}  // namespace turnbench
