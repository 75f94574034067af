#include "methods/parts/shared_selection.h"

#include <algorithm>
#include <utility>

#include "inference/kv/slot_set.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

constexpr int kFewLayers = 16;

/// The candidates of a selecting layer.
struct LayerCandidates {
  /// Ascending, of all sets together; empty if each set has its own candidates.
  std::vector<std::int32_t> positions;
  /// [sets][candidates]: slots of the candidates, -1 if the query does not see a candidate; empty
  /// if the candidates are the first `counts` slots.
  std::vector<std::vector<std::int32_t>> slots;
  std::vector<std::int64_t> counts;  ///< [sets]
};

/// end: the position after the last candidate.
LayerCandidates candidates_of(const LayerView& view, bool one_list, std::int32_t end) {
  LayerCandidates out;
  const auto complete = [&](const KvHeadCache& set) {
    return set.size() == view.first_position + 1;
  };
  if (one_list && !std::all_of(view.sets.begin(), view.sets.end(), complete)) {
    SlotSet kept(end);
    for (const KvHeadCache& set : view.sets) {
      for (int j = 0; j < set.size() && set.position(j) < end; ++j) kept.add(set.position(j));
    }
    kept.append_to(out.positions);
  }
  for (const KvHeadCache& set : view.sets) {
    std::vector<std::int32_t>& slots = out.slots.emplace_back(slots_in_window(view, set));
    if (out.positions.empty()) {
      out.counts.push_back(set.lower_bound(end));
      if (!slots.empty()) slots.resize(static_cast<std::size_t>(out.counts.back()));
      continue;
    }
    out.counts.push_back(std::ssize(out.positions));
    const std::vector<std::int32_t> seen = std::exchange(slots, {});
    int slot = 0;
    for (const std::int32_t position : out.positions) {
      const bool has = slot < set.size() && set.position(slot) == position;
      const bool sees = has && (seen.empty() || seen[slot] >= 0);
      slots.push_back(sees ? slot : -1);
      slot += has ? 1 : 0;
    }
  }
  return out;
}

/// Scores of the candidates, reduced over the query heads of each list: [lists][candidates].
std::vector<std::span<const float>> reduced_scores(const LayerView& view, const TokenRule& rule,
                                                   const LayerCandidates& from) {
  const std::int64_t heads = view.heads_per_set(),
                     per_list = rule.one_list ? view.shape.heads : heads;
  std::int64_t floats = 0;
  for (const std::int64_t count : from.counts) floats += (heads + 1) * count;
  float* memory = view.scratch->floats(static_cast<std::size_t>(floats));
  std::vector<KeyScoreJob> scoring;
  std::vector<ReduceHeadsJob> reducing;
  for (std::size_t s = 0; s < view.sets.size(); ++s) {
    const std::int64_t n = from.counts[s];
    const MatrixView<float> scores(memory, per_list, n);  // of one list, list after list
    scoring.push_back(
        {&view.sets[s], view.step_queries(s), from.slots[s], scores.rows_at(0, heads)});
    if (!rule.one_list || s == 0) reducing.push_back({scores, rule.reduction, {nullptr, 1, n}});
    memory += heads * n;
  }
  std::vector<std::span<const float>> out;
  for (ReduceHeadsJob& job : reducing) {
    job.out.data = memory;
    memory += job.out.columns;
    out.emplace_back(job.out.data, static_cast<std::size_t>(job.out.columns));
  }
  view.backend->score_keys(view.scale, scoring);
  view.backend->reduce_heads(reducing);
  return out;
}

/// The first position of the answer.
std::int32_t answer_begin(const LayerView& view) {
  return view.first_position + 1 - view.generated;
}

StepTokens choose(const LayerView& view, const TokenRule& rule) {
  const std::int32_t current = view.first_position,
                     end = rule.prompt_only ? answer_begin(view) : current + 1;
  const LayerCandidates from = candidates_of(view, rule.one_list, end);
  StepTokens out{current, best_tokens(*view.backend, reduced_scores(view, rule, from), rule.tokens,
                                      rule.sinks, rule.prompt_only ? 0 : 1)};
  for (std::size_t i = 0; i < out.positions.size(); ++i) {
    std::vector<std::int32_t>& list = out.positions[i];
    const KvHeadCache& set = view.sets[i];
    if (!from.positions.empty() || !set.is_contiguous()) {
      for (std::int32_t& at : list) {
        at = from.positions.empty() ? set.position(at) : from.positions[at];
      }
    }
    list = with_tail(std::move(list), end, current + 1);
  }
  return out;
}

/// The tokens of some KV heads; each has as many lists as any other, or all share one.
StepTokens tokens_of_heads(const StepTokens& step, std::span<const int> heads) {
  const std::size_t lists = step.positions.size();
  if (lists < heads.size()) return step;
  const std::size_t per_head = lists / heads.size();
  StepTokens out{step.current, {}};
  for (std::size_t i = 0; i < lists; ++i)
    out.positions.push_back(step.positions[heads[i / per_head] * per_head + i % per_head]);
  return out;
}

}  // namespace

void SharedSelection::after_prefill(const LayerView& view) {
  const TokenRule chosen = rule(view.prompt_tokens);
  if (role(view.layer, view.shape).selects) lists_ = chosen.one_list ? 1 : view.sets.size();
  if (!chosen.prompt_only) return;
  prompt_.resize(static_cast<std::size_t>(view.shape.layers));
  std::vector<std::int32_t>& prompt = prompt_[view.layer];
  prompt.clear();
  for (const KvHeadCache& set : view.sets) prompt.push_back(set.size());
}

std::vector<SlotRange> SharedSelection::pinned(int layer, int set, int tokens) const {
  return {{prompt_.empty() ? tokens - 1 : prompt_[layer][set], tokens}};
}

DeviceNeeds SharedSelection::demand(const PromptSize& size, const LayerView* known) const {
  const LayerRole own = role(size.layer, size.shape);
  const TokenRule chosen = rule(size.prompt_tokens);
  const std::size_t sets = known == nullptr ? lists_ : known->sets.size();
  DeviceNeeds out = needs_of_steps(size, chosen.tokens,
                                   static_cast<int>(std::max<std::size_t>(1, lists_ / sets)));
  if (chosen.prompt_only) out.pinned_tokens = kAnswerRoom;
  out.everything = own.selects || own.source < 0 || size.tokens <= chosen.tokens;
  return out;
}

LayerRange SharedSelection::known_after(int layer, const ModelShape& shape) const {
  LayerRange out;
  if (layer < 0 || !role(layer, shape).selects) return out;
  for (int l = layer + 1; l < shape.layers && !role(l, shape).selects; ++l) {
    if (role(l, shape).source < 0) continue;
    if (out.end == 0) out.begin = l;
    out.end = l + 1;
  }
  return out;
}

Selection SharedSelection::select(const LayerView& view) {
  const LayerRole own = role(view.layer, view.shape);
  const TokenRule chosen = rule(view.prompt_tokens);
  if (own.selects) step_ = choose(view, chosen);
  if (own.source < 0) return {};
  const int most = chosen.tokens + (chosen.prompt_only ? view.generated : 0);
  const std::span<const int> heads = source_heads(view.layer);
  if (heads.empty() || own.source == view.layer) return read_in_layer(view, step_, most);
  return read_in_layer(view, tokens_of_heads(step_, heads), most);
}

int SelectingLayers::last_at(int layer, int model_layers) const {
  int out = -1;
  for (const int given_layer : given) {
    if (given_layer <= layer) out = given_layer;
  }
  for (std::size_t i = 0; i < in_32nds.size() && given.empty(); ++i) {
    if (model_layers < kFewLayers && in_32nds[i] % 8 != 0) continue;
    if (const int at = in_32nds[i] * model_layers / 32; at <= layer) out = at;
  }
  return out;
}

}  // namespace turnbench
