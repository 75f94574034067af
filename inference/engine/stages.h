#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace turnbench {

/// The pipeline stages of a model: each consists of consecutive layers on one backend.
class Stages {
 public:
  /// Splits layers into `count` stages of at least one layer each, so that the largest sum of
  /// weights is minimal.  weights: of each layer.  count: from 1 to the number of layers.
  Stages(std::span<const std::int64_t> weights, std::size_t count);

  std::size_t count() const { return first_.size() - 1; }
  /// Stage s has layers [first_layer(s), first_layer(s + 1)).
  int first_layer(std::size_t stage) const { return first_[stage]; }
  std::size_t stage_of(int layer) const;

 private:
  std::vector<int> first_;  // first layer of each stage, then the number of layers
};

}  // namespace turnbench
