#pragma once

#include <memory>
#include <optional>

#include "inference/policy/layer_view.h"

namespace turnbench {

/// The rows of a KV set from slot `first` on, in memory that the layer's backend can read.  If the
/// backend can read the set, `set` is this set with all its rows, and `origin` is 0.  Otherwise,
/// `set` is a copy of the rows, and `origin` is `first`.
class RowsOnDevice {
 public:
  /// pool: pool of the copies; created on first use.
  RowsOnDevice(const LayerView& view, const KvHeadCache& set, int first,
               std::shared_ptr<KvPool>& pool);

  const KvHeadCache& set() const { return copy_ ? *copy_ : *set_; }
  /// The slot of the layer's set that corresponds to slot 0 of `set`.
  int origin() const { return origin_; }

 private:
  const KvHeadCache* set_;
  std::optional<KvHeadCache> copy_;
  int origin_ = 0;
};

}  // namespace turnbench
