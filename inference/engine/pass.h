#pragma once

#include <span>
#include <vector>

#include "inference/engine/sequence.h"
#include "inference/model/matrix_view.h"
#include "inference/policy/layer_view.h"
#include "inference/policy/selection.h"

namespace turnbench {

/// Attention outputs of a layer for the same hidden states in two sequences, in host memory: [rows,
/// heads * head_dim], before the output projection.
struct AttentionOutputs {
  int layer = 0;
  MatrixView<const float> own, followed;
};

/// Observes the layers of a pass in order, without changing its results.
class LayerObserver {
 public:
  virtual ~LayerObserver() = default;
  /// Called in a decode step of a sequence with a selection policy, before the layer's attention.
  /// view: of the step, with the step's own keys.  selection: the slots that attention reads.
  virtual void selection(const LayerView& /*view*/, const Selection& /*selection*/) {}
  /// Called for a prefill pass after the layer's attention.  view: of the pass, with its own keys.
  virtual void attention(const LayerView& /*view*/) {}
  /// If true, `residuals` is called for a pass that is alone in its batch and returns all logits.
  virtual bool reads_residuals() const { return false; }
  /// The hidden states of some rows of the pass, in order, before and after the output of the
  /// layer's attention is added to them, in host memory: [rows, hidden].
  virtual void residuals(int /*layer*/, MatrixView<const float> /*before*/,
                         MatrixView<const float> /*after*/) {}
  /// Called for a pass with `follows`, after the layer's attention and before its outputs are
  /// replaced.
  virtual void outputs(const AttentionOutputs& /*outputs*/) {}
};

/// The new tokens of one sequence in a forward pass.
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
  /// Sequences that share this prefill.  At the end of the prompt, each fork gets the state that
  /// `sequence` would have with the fork's eviction and selection policies; `sequence` itself keeps
  /// all tokens.  If the forks' policies use column masses, earlier passes of the prompt must also
  /// name the forks.
  std::vector<Sequence*> forks = {};
  bool all_logits = false;  ///< return the logits of all rows, not only of the last
  /// Index of an earlier pass of the same batch with as many rows that this pass follows.  After
  /// each layer, the attention output of this pass is replaced by that of the followed pass, so
  /// that both see identical hidden states (teacher forcing per layer).  -1: none.
  int follows = -1;
  LayerObserver* observer = nullptr;  ///< may be null
};

}  // namespace turnbench
