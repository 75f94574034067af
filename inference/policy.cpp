#include "inference/policy.h"

namespace turnbench {
namespace {

constexpr std::int32_t kRoom = 1024;  // tokens of an answer, before there is a new working set

}  // namespace

DeviceNeeds SelectionPolicy::device_needs(const LayerView& view) const {
  return reading_everything(view);
}

DeviceNeeds reading_everything(const LayerView& view) {
  return {.step_tokens = (longest_set(view) / kRoom + 2) * kRoom};
}

std::int32_t longest_set(const LayerView& view) {
  std::int32_t out = 0;
  for (const KvHeadCache& set : view.sets) out = std::max(out, set.size());
  return out;
}

std::vector<SlotRange> sinks_and_window(int sinks, int window, int tokens) {
  if (window <= sinks) return {{0, tokens}};
  return {{0, sinks}, {window, tokens}};
}

}  // namespace turnbench
