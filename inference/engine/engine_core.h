#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inference/engine/model.h"
#include "inference/engine/profile.h"
#include "inference/engine/stage.h"
#include "inference/policy/background.h"

namespace turnbench {

/// Floating-point operations of products, 2 per multiply-add, without replayed
/// decode steps.
struct Operations {
  double linear = 0;     ///< of linear layers and the output head
  double attention = 0;  ///< of prompts: the causal pairs that the method computes
};

/// The state that the parts of an engine share.
struct EngineCore {
  EngineCore(const Model& model, std::span<Backend* const> backends, const EngineOptions& options);

  Stage& stage_of(int layer) { return stages[model.stages().stage_of(layer)]; }
  /// Measures a phase of a layer, if there is a profile.
  Profile::Zone zone(Phase phase, int layer) {
    return {profile, *stage_of(layer).memory, phase, layer};
  }
  /// Writes the RoPE tables of the positions to the stage's memory.  cos, sin: [positions,
  /// head_dim / 2].
  void compute_rope(Stage& stage, std::span<const std::int32_t> positions, float* cos, float* sin);
  /// The RoPE table of at least positions [0, positions), in the stage's memory and valid until the
  /// next call.
  RopeTable rope_table(Stage& stage, std::int64_t positions);
  /// Operations of attention for (query, key) pairs.
  double flops_of_pairs(double pairs) const { return 4.0 * shape.head_dim * pairs; }
  /// Sets the fields of a view that selection policies need.  queries: of the view's pass, [rows,
  /// heads * head_dim].
  void add_tools(LayerView& view, MatrixView<const float> queries);

  const Model& model;
  EngineOptions options;
  ModelShape shape;
  float scale;  ///< of attention scores
  Math math;    ///< of the model with this cache
  std::vector<Stage> stages;
  BackgroundTasks background;
  Profile* profile = nullptr;  ///< of forward passes; null: not measured
  Operations operations;       ///< so far
  Scratch staging;             ///< host memory for rows copied from or to a backend's memory
};

}  // namespace turnbench
