#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "inference/engine/engine.h"

namespace turnbench {

/// Synthetic keys and queries with the structure of real heads, for decode steps at any depth.  The
/// first tokens are sinks.  The others form runs of neighbours with a common topic, a direction
/// that differs between KV heads.  A query matches a few topics for some steps; most of them are
/// common to the query heads of a group.  The rest is noise, and so are values.  Every third layer
/// repeats the same KV heads in another order.  Results are cached.
class PlantedKv : public KvSource {
 public:
  explicit PlantedKv(const ModelShape& shape) : shape_(shape) {}

  void keys_and_values(int layer, int set, std::int32_t first, MatrixView<float> rows) override;
  void queries(int layer, std::int32_t first, MatrixView<float> rows) override;

 private:
  using Topics = std::vector<std::vector<float>>;
  /// A KV head of one of the first layers, which later layers repeat.
  struct Head {
    int layer, set;
  };

  /// The head that set `set` of a layer repeats.
  Head planted(int layer, int set) const;

  /// The directions of a set's topics, followed by that of its sinks; length 1, [topics +
  /// 1][head_dim].
  const Topics& topics(Head head);
  /// Fills the keys and values of prompt tokens, as `keys_and_values` requests them.
  void plant(Head head, std::int32_t first, MatrixView<float> rows);

  ModelShape shape_;
  std::map<std::pair<int, int>, Topics> topics_;  ///< by layer and set
  /// Rows of several tokens, by layer, set, first token and number of tokens.
  std::map<std::tuple<int, int, std::int32_t, std::int64_t>, std::vector<float>> rows_;
};

}  // namespace turnbench
