#pragma once

#include <memory>
#include <optional>

#include "inference/policy/policy.h"

namespace turnbench {

/// The rows of a KV set from a slot on where the operations of the layer's backend can read them:
/// the set itself or, if it is in host memory that is not the backend's, a copy of these rows.
class RowsOnDevice {
 public:
  /// pool: of copies; made when it is first needed.
  RowsOnDevice(const LayerView& view, const KvHeadCache& set, int first,
               std::shared_ptr<KvPool>& pool);

  const KvHeadCache& set() const { return copy_ ? *copy_ : *set_; }
  /// The slot of the layer's set that is slot 0 of `set`.
  int origin() const { return origin_; }

 private:
  const KvHeadCache* set_;
  std::optional<KvHeadCache> copy_;
  int origin_ = 0;
};

}  // namespace turnbench
