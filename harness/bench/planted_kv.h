#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "inference/engine/engine.h"

namespace turnbench {

/// Keys and queries with the structure of real heads, for decode steps at any depth.  The first
/// tokens are sinks.  The others come in runs of neighbours that share a topic, a direction of
/// their own for each KV head; a query looks for a few topics, most of them shared by the heads of
/// its group, and stays with them for some steps.  The rest is noise.  Values are noise.  Every
/// third layer has the same KV heads in other places; what is asked for again is remembered.
class PlantedKv : public KvSource {
 public:
  explicit PlantedKv(const ModelShape& shape) : shape_(shape) {}

  void keys_and_values(int layer, int set, std::int32_t first, MatrixView<float> rows) override;
  void queries(int layer, std::int32_t first, MatrixView<float> rows) override;

 private:
  using Topics = std::vector<std::vector<float>>;
  /// A KV head of the first layers.
  struct Head {
    int layer, set;
  };

  /// The one that set `set` of a layer is like.
  Head planted(int layer, int set) const;

  /// The directions of a set's topics and, behind them, of its sinks: of length 1,
  /// [topics + 1][head_dim].
  const Topics& topics(Head head);
  /// What a prompt has of keys and values, as `keys_and_values` asks for it.
  void plant(Head head, std::int32_t first, MatrixView<float> rows);

  ModelShape shape_;
  std::map<std::pair<int, int>, Topics> topics_;  ///< by layer and set
  /// Rows of several tokens, by layer, set, first token and number.
  std::map<std::tuple<int, int, std::int32_t, std::int64_t>, std::vector<float>> rows_;
};

}  // namespace turnbench
