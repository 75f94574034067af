#include "inference/policy.h"

namespace turnbench {
namespace {

constexpr std::int32_t kRoom = 1024;  // tokens of an answer, before there is a new working set

}  // namespace

DeviceNeeds SelectionPolicy::device_needs(const LayerView& view) const {
  return reading_everything(view);
}

DeviceNeeds reading_everything(const LayerView& view) {
  DeviceNeeds out;
  for (const KvHeadCache& set : view.sets) out.step_tokens = std::max(out.step_tokens, set.size());
  out.step_tokens = (out.step_tokens / kRoom + 2) * kRoom;
  return out;
}

}  // namespace turnbench
