#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace turnbench {

/// A model's layers cut into stages: consecutive layers that one backend holds and computes.
class Stages {
 public:
  /// Cuts layers of such weights into `count` stages of at least one layer each, so that the
  /// heaviest is as light as possible.  `count` is at least 1 and at most the layers.
  Stages(std::span<const std::int64_t> weights, std::size_t count);

  std::size_t count() const { return first_.size() - 1; }
  /// Layers [first_layer(s), first_layer(s + 1)) are stage s.
  int first_layer(std::size_t stage) const { return first_[stage]; }
  std::size_t stage_of(int layer) const;

 private:
  std::vector<int> first_;  // of each stage, and the number of layers behind them
};

}  // namespace turnbench
