#include "inference/policy/rows_on_device.h"

#include <vector>

#include "inference/backend/backend.h"

namespace turnbench {

RowsOnDevice::RowsOnDevice(const LayerView& view, const KvHeadCache& set, int first,
                           std::shared_ptr<KvPool>& pool)
    : set_(&set) {
  const std::shared_ptr<Memory>& memory = view.backend->memory();
  if (can_read(*view.backend, set)) return;
  if (pool == nullptr) pool = std::make_shared<KvPool>(set.layout(), memory);
  std::vector<Copy> copies;
  copy_.emplace(pool).append_slots(set, slots_between(first, set.size()), copies);
  memory->copy(copies);
  origin_ = first;
}

}  // namespace turnbench
