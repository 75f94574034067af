#include "methods/step_tokens.h"

#include <algorithm>

#include "common/error.h"

namespace turnbench {
namespace {

/// The slots of the positions that a set has.
std::vector<std::int32_t> slots_of(const KvHeadCache& set,
                                   const std::vector<std::int32_t>& positions) {
  const int n = set.size();
  if (set.position(n - 1) == n - 1) return positions;  // nothing was evicted
  std::vector<std::int32_t> out;
  out.reserve(positions.size());
  for (const std::int32_t position : positions) {
    const int slot = set.lower_bound(position);
    if (slot < n && set.position(slot) == position) out.push_back(slot);
  }
  return out;
}

}  // namespace

std::vector<std::vector<std::int32_t>> best_tokens(Backend& backend,
                                                   std::span<const std::span<const float>> rows,
                                                   int budget) {
  std::vector<std::vector<std::int32_t>> out(rows.size());
  std::vector<TopKJob> choosing;
  for (std::size_t i = 0; i < rows.size(); ++i)
    choosing.push_back({rows[i].first(rows[i].size() - 1), budget - 1, &out[i]});
  backend.top_k(choosing);
  for (std::size_t i = 0; i < rows.size(); ++i)
    out[i].push_back(static_cast<std::int32_t>(rows[i].size()) - 1);
  return out;
}

Selection read_in_layer(const LayerView& view, const StepTokens& tokens, int budget) {
  if (longest_set(view) <= budget) return {};
  if (tokens.current != view.first_position) {
    throw runtime_error("layer {}: found tokens chosen for position {}, expected {}", view.layer,
                        tokens.current, view.first_position);
  }
  const std::size_t sets = view.sets.size(), chosen = tokens.positions.size(),
                    lists = std::max(sets, chosen);
  Selection out;
  for (std::size_t i = 0; i < lists; ++i) {
    out.slots.push_back(
        slots_of(view.sets[i * sets / lists], tokens.positions[i * chosen / lists]));
  }
  return out;
}

DeviceNeeds needs_of_steps(const PromptSize& prompt, int budget, int lists_per_set) {
  // One more than the others of a step, so that its own token stays for the next one.
  return {.everything = prompt.tokens <= budget,
          .step_tokens = lists_per_set * budget,
          .lists_per_set = lists_per_set};
}

int step_budget(int tokens) {
  return std::max(1, tokens);
}

}  // namespace turnbench
