#pragma once

#include <string>
#include <vector>

namespace turnbench {

/// The learned gate of each KV head.
struct HeadGates {
  std::string source;                      ///< file; empty: random gates
  std::vector<std::vector<float>> layers;  ///< [layers][kv_heads]

  /// Reads DuoAttention's format: one line per layer, numbers separated by tabs.
  static HeadGates load(const std::string& path);
  /// Draws random gates, or refuses a file for a model of another shape.
  void fit(int model_layers, int kv_heads);
  /// The round(sparsity * heads) heads with the smallest gates, which are clipped to [0, 1]; ties
  /// go to the lower index: [layers * kv_heads].
  std::vector<bool> smallest(double sparsity) const;
};

}  // namespace turnbench
