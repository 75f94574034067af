#include "methods/heavy_hitters.h"

#include "common/error.h"

namespace turnbench {

KeepSets HeavyHitters::after_prefill(const LayerView& view) {
  layers_.resize(static_cast<std::size_t>(view.shape.layers));
  Layer& layer = layers_[static_cast<std::size_t>(view.layer)];
  if (!s_.dynamic) layer = {};
  const std::vector<KeptSet> sets = kept_sets(view, s_.per_query_head);
  add(sets, view.stats.column_mass(rule(0)), layer);
  layer.limit = limit(view);
  return keep(view, sets, layer);
}

KeepSets HeavyHitters::after_decode(const LayerView& view) {
  if (!s_.dynamic || layers_.empty()) return {};
  Layer& layer = layers_[static_cast<std::size_t>(view.layer)];
  const std::vector<KeptSet> sets = kept_sets(view, s_.per_query_head);
  add(sets, view.stats.column_mass(rule(view.generated)), layer);
  return keep(view, sets, layer);
}

void HeavyHitters::add(const std::vector<KeptSet>& sets, const ColumnMass& rows, Layer& layer) {
  layer.mass.resize(sets.size());
  layer.rows += rows.rows;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const std::vector<float> more = group_scores(rows.scores, sets[i].first_head, sets[i].heads,
                                                 sets[i].tokens, GroupRule::kSum);
    layer.mass[i].resize(more.size(), 0.0f);
    for (std::size_t j = 0; j < more.size(); ++j) layer.mass[i][j] += more[j];
  }
}

/// What a set may keep behind a prompt and behind each step.
HeavyHitters::Limit HeavyHitters::limit(const LayerView& view) const {
  const int n = view.prompt_tokens, budget = s_.budget.tokens(n), recent = s_.recent.tokens(budget);
  if (n > budget && (recent > budget || budget == 0)) {
    throw input_error("{}: found a budget of {} tokens and {} recent ones, expected no more",
                      s_.budget.method, budget, recent);
  }
  const int always = std::min(recent, budget);
  Limit out{always, s_.budget.choices(view, always)};
  if (s_.counts_current) --(out.recent > 0 ? out.recent : out.hitters);
  return {out.recent, std::max(0, out.hitters)};
}

KeepSets HeavyHitters::keep(const LayerView& view, const std::vector<KeptSet>& sets,
                            Layer& layer) const {
  KeepSets out;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const int n = sets[i].tokens;
    const auto [recent, hitters] = layer.limit;
    if (n <= recent + hitters) {
      out.slots.push_back(all_slots(n));
      continue;
    }
    const int candidates = n - recent;
    const KvHeadCache& set = view.sets[i * view.sets.size() / sets.size()];
    std::vector<float> scores(layer.mass[i].begin(), layer.mass[i].begin() + candidates);
    if (s_.per_row) {
      const int last = set.position(n - 1);
      for (int j = 0; j < candidates; ++j) {
        const int seeing = std::min(layer.rows, last - set.position(j) + 1);
        scores[static_cast<std::size_t>(j)] /= static_cast<float>(seeing);
      }
    }
    out.slots.push_back(with_tail(top_k(scores, hitters), candidates, n));
    std::vector<float> kept;
    for (std::int32_t slot : out.slots.back())
      kept.push_back(layer.mass[i][static_cast<std::size_t>(slot)]);
    layer.mass[i] = std::move(kept);
  }
  return out;
}

}  // namespace turnbench
