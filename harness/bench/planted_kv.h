#pragma once

#include <cstdint>
#include <vector>

#include "inference/engine.h"

namespace turnbench {

/// Keys and queries with the structure of real heads, for decode steps at any depth.  The first
/// tokens are sinks.  The others come in runs of neighbours that share a topic, a direction of
/// their own for each KV head; a query looks for a few topics, most of them shared by the heads of
/// its group, and stays with them for some steps.  The rest is noise.  Values are noise.
class PlantedKv : public KvSource {
 public:
  explicit PlantedKv(const ModelShape& shape) : shape_(shape) {}

  void keys_and_values(int layer, int set, std::int32_t first, MatrixView<float> rows) override;
  void queries(int layer, std::int32_t first, MatrixView<float> rows) override;

 private:
  /// The direction of a topic, [head_dim], of length 1.
  std::vector<float> topic(int layer, int set, int number) const;

  ModelShape shape_;
};

}  // namespace turnbench
