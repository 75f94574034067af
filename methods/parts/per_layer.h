#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace turnbench {

/// The state that a policy keeps of each layer.
template <typename T>
class PerLayer {
 public:
  /// initial: the state of a layer that has not been accessed yet.
  explicit PerLayer(T initial = {}) : initial_(std::move(initial)) {}

  T& operator[](int layer) {
    const auto at = static_cast<std::size_t>(layer);
    if (at >= layers_.size()) layers_.resize(at + 1, initial_);
    return layers_[at];
  }
  const T& operator[](int layer) const {
    const auto at = static_cast<std::size_t>(layer);
    return at < layers_.size() ? layers_[at] : initial_;
  }
  auto begin() const { return layers_.begin(); }
  auto end() const { return layers_.end(); }

 private:
  T initial_;
  std::vector<T> layers_;
};

}  // namespace turnbench
