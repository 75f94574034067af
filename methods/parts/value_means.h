#pragma once

#include <memory>
#include <span>

#include "inference/policy/policy.h"
#include "methods/parts/indexed_tokens.h"

namespace turnbench {

/// The mean of all cached values of each KV set of a layer, summed in double precision.  The sums
/// of a prompt are shared by all sequences that continue from it.
class ValueMeans {
 public:
  void build(const LayerView& view);
  /// Adds the values of a sequence's tokens from slot first[s] on of each set s, as
  /// IndexedTokens::extend returns them.
  void extend(const LayerView& view, const IndexedTokens& tokens, std::span<const int> first);
  /// [sets, head_dim], in the backend's memory.
  MatrixView<const float> means(const LayerView& view) const;

 private:
  struct Own {
    Buffer sums, means;  ///< in double and float
  };
  std::shared_ptr<const Buffer> prompt_;  // sums: [sets, head_dim]
  Unshared<Own> own_;
  std::shared_ptr<KvPool> copies_;  // for values of offloaded layers
};

}  // namespace turnbench
