#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "inference/policy/layer_view.h"

namespace turnbench {

/// Scores the cached tokens of a prompt by passes that the engine computes where the policy evicts:
/// after the prompt, before its question, or after a block.  An object is for one such point.  The
/// tokens of a pass attend to the cached tokens, and are removed when the pass has ended.  Eviction
/// policies whose scoring passes have an equal `key()` share one object and its passes.
class ScoringPasses {
 public:
  virtual ~ScoringPasses() = default;
  /// Names the computation and all settings that it depends on.
  virtual std::string key() const = 0;
  /// For plans: an upper bound of the number of tokens of the longest pass, with its instruction.
  virtual int longest_pass(int prompt_tokens) const = 0;
  /// For plans: the typical number of tokens of all passes together, without their instructions.
  virtual int tokens_of_passes(int prompt_tokens) const = 0;
  /// Whether the passes can also run after a block of a prompt (Policies::compress_block), when
  /// earlier tokens may have been evicted.
  virtual bool works_in_blocks() const { return false; }
  /// The tokens of each pass, at the positions after the prompt: [passes][tokens].  Called once,
  /// before the first pass.
  virtual std::vector<std::vector<int>> begin(const DialogueView& dialogue) = 0;
  /// Called for each layer after its attention, once for each chunk of rows of pass `pass`, in
  /// order.  The view's sets contain the tokens of the prompt and those of the pass up to these
  /// rows.
  virtual void score(const LayerView& view, std::size_t pass) = 0;
};

}  // namespace turnbench
