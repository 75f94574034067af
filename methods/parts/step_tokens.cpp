#include "methods/parts/step_tokens.h"

#include <algorithm>
#include <utility>

#include "common/error.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

/// The slots of those positions that a set still has.
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
                                                   int budget, int sinks, int newest) {
  std::vector<std::vector<std::int32_t>> best(rows.size()), out;
  std::vector<TopKJob> choosing;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto end = static_cast<std::int32_t>(rows[i].size()) - newest,
               first = std::min(sinks, end);
    choosing.push_back({rows[i].subspan(first, end - first), budget - first - newest, &best[i]});
  }
  backend.top_k(choosing);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto tokens = static_cast<std::int32_t>(rows[i].size()), end = tokens - newest,
               first = std::min(sinks, end);
    std::vector<std::int32_t>& list = out.emplace_back(all_slots(first));
    for (const std::int32_t at : best[i]) list.push_back(first + at);
    list = with_tail(std::move(list), end, tokens);
  }
  return out;
}

Selection read_in_layer(const LayerView& view, const StepTokens& tokens, int budget) {
  if (longest_set(view.sets) <= budget) return {};
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
  // One more than a step selects, so that its own token stays on the device for the next step.
  return {.everything = prompt.tokens <= budget,
          .step_tokens = lists_per_set * budget,
          .lists_per_set = lists_per_set};
}

int step_budget(int tokens, int sinks) {
  return std::max(sinks + 1, tokens);
}

ParameterInfo sinks_parameter() {
  return {"sinks", ParameterInfo::Kind::kInteger, "0", "tokens",
          "first tokens, always read; counted in the budget"};
}

}  // namespace turnbench
