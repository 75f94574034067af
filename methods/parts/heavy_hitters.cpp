#include "methods/parts/heavy_hitters.h"

#include "common/error.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

/// mass[j] += more[j]; new tokens start at 0.
void accumulate(std::span<const float> more, std::vector<float>& mass) {
  mass.resize(more.size(), 0.0f);
  for (std::size_t j = 0; j < more.size(); ++j) mass[j] += more[j];
}

/// The elements at `slots`.
std::vector<float> gathered(std::span<const float> mass, std::span<const std::int32_t> slots) {
  std::vector<float> out;
  for (std::int32_t slot : slots) out.push_back(mass[slot]);
  return out;
}

}  // namespace

HeavyHitters::HeavyHitters(const Settings& s) : s_(s) {
  const Budget& mean = s.budget.mean;
  const double fixed = s.budget.sinks + (s.recent.is_ratio ? 0 : s.recent.value);
  if (mean.is_ratio || mean.value >= fixed) return;
  throw input_error("{}: found a budget of {} with {} {}recent tokens, expected at least {}",
                    s.budget.method, mean.value, fixed, s.budget.sinks > 0 ? "first and " : "",
                    fixed);
}

KeepSets HeavyHitters::after_prefill(const LayerView& view) {
  layers_.resize(static_cast<std::size_t>(view.shape.layers));
  Layer& layer = layers_[view.layer];
  if (!s_.dynamic) layer = {};
  // [query heads, n]: attention of all the prompt's rows, summed.
  const ColumnMass& attention = view.stats.column_mass(rule(0, view.dialogue));
  layer.split = split(view);
  return evict(view, attention, layer);
}

KeepSets HeavyHitters::after_decode(const LayerView& view) {
  if (layers_.empty()) return {};
  // [query heads, n]: attention of the step's row.
  const ColumnMass& attention = view.stats.column_mass(rule(view.generated, view.dialogue));
  return evict(view, attention, layers_[view.layer]);
}

/// The new rows' attention -> summed over the heads of a set -> added to the masses -> top-k of the
/// tokens between the sinks and the recent ones.
KeepSets HeavyHitters::evict(const LayerView& view, const ColumnMass& attention,
                             Layer& layer) const {
  const std::vector<KeptSet> sets = kept_sets(view, s_.per_query_head);
  layer.rows += attention.rows;
  layer.mass.resize(sets.size());
  KeepSets out;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const KeptSet& set = sets[i];
    const int n = set.tokens;
    std::vector<float>& mass = layer.mass[i];  // [n]
    accumulate(group_scores(attention.scores, set.first_head, set.heads, n, GroupRule::kSum), mass);

    const auto [recent, hitters] = layer.split;
    const int sinks = s_.budget.sinks;
    if (n <= sinks + recent + hitters) {
      out.slots.push_back(all_slots(n));
      continue;
    }
    const int end = n - recent;
    std::vector<float> scores =  // [end]
        this->scores(set, std::span(mass).first(static_cast<std::size_t>(end)), layer.rows);
    out.slots.push_back(
        with_tail(top_k_with_first(std::move(scores), sinks, sinks + hitters), end, n));
    mass = gathered(mass, out.slots.back());  // removes the masses of evicted tokens
  }
  return out;
}

/// The masses of a set's first tokens, optionally divided by the number of rows that see them.
std::vector<float> HeavyHitters::scores(const KeptSet& set, std::span<const float> mass,
                                        int rows) const {
  std::vector<float> out(mass.begin(), mass.end());
  if (!s_.divide_by_rows) return out;
  const int last = set.cache->position(set.tokens - 1);
  for (std::size_t j = 0; j < out.size(); ++j) {
    const int behind = last - set.cache->position(static_cast<int>(j)) + 1;
    out[j] /= static_cast<float>(std::min(rows, behind));
  }
  return out;
}

/// The division of a set's budget after a prompt and after each step.
HeavyHitters::Split HeavyHitters::split(const LayerView& view) const {
  const int n = view.prompt_tokens, budget = s_.budget.tokens(n), sinks = s_.budget.sinks,
            wanted = s_.recent.tokens(std::max(0, budget - sinks));
  if (n > budget && n <= sinks + wanted) return {n, 0};
  if (n > budget && (sinks + wanted > budget || budget == 0)) {
    throw input_error("{}: found a budget of {} tokens with {} recent ones{}, expected at least {}",
                      s_.budget.method, budget, wanted,
                      sinks == 0 ? "" : fmt::format(" and {} sinks", sinks),
                      std::max(1, sinks + wanted));
  }
  int recent = std::min(wanted, budget), hitters = s_.budget.choices(view, sinks + recent);
  if (s_.counts_current) --(recent > 0 ? recent : hitters);
  return {recent, std::max(0, hitters)};
}

/// The rule that weights the rows of a decode step; step 0 is the prompt.
ColumnRule HeavyHitters::rule(int step, const DialogueView& dialogue) const {
  ColumnRule out{s_.gumbel_noise, s_.first_temperature, s_.causal_rows};
  if (step == 0) return out;
  const int steps = s_.temperature_steps > 0 ? s_.temperature_steps : dialogue.answer_limit;
  if (steps == 0) {
    throw input_error("{}: t_max: found 0 and an answer without a length limit, expected one",
                      s_.budget.method);
  }
  const double part = std::min(1.0, static_cast<double>(step) / steps);
  out.temperature += part * (s_.last_temperature - s_.first_temperature);
  return out;
}

}  // namespace turnbench
