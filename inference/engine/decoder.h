#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "inference/engine/engine_core.h"

namespace turnbench {

/// The transformer without its attention: embeddings, projections, feed-forward networks, logits.
/// It does not depend on policies or caches.
class Decoder {
 public:
  explicit Decoder(EngineCore& core) : core_(core) {}

  /// Allocates the stage's activations except logits.
  void make_room(Stage& stage, const ForwardBatch& batch) const;
  void embed(std::span<const Pass> passes, const ForwardBatch& batch);
  /// Copies the hidden states and the RoPE tables from one stage to the next.
  void copy_to_next_stage(Stage& from, Stage& to, const ForwardBatch& batch) const;
  /// Computes queries, keys and values of all rows, with RoPE.
  void qkv_rope(int layer, const ForwardBatch& batch);
  /// Output projection of attention and feed-forward network, both added to the hidden states.  The
  /// last layer first moves the rows whose logits are returned to the front, and computes only
  /// these.
  void output_and_ffn(int layer, const ForwardBatch& batch);
  /// Runs part `part` of a stage's work on the rows, through the stage's Replay in decode steps.
  /// The operations of `work` must depend only on the sizes in `batch` and the stage's memory.
  void run_replayable(Stage& stage, const ForwardBatch& batch, int part,
                      const std::function<void()>& work) const;
  /// The logits of the rows that the passes request, after the last layer.
  std::vector<std::vector<float>> read_logits(std::span<const Pass> passes,
                                              const ForwardBatch& batch);

 private:
  static void gather_logit_rows(Stage& stage, const ForwardBatch& batch);
  void linear(Stage& stage, MatrixView<const float> x, const WeightMatrix& w, const float* bias,
              MatrixView<float> y);

  EngineCore& core_;
};

}  // namespace turnbench
