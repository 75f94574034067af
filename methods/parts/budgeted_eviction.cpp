#include "methods/parts/budgeted_eviction.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "common/error.h"
#include "methods/parts/output_norms.h"
#include "methods/parts/token_blocks.h"

namespace turnbench {
namespace {

using SetScores = std::vector<std::vector<float>>;  // [sets][candidates]

/// Multiplies the scores of a set by the share of its `base` best tokens in their sum.
void weigh_by_concentration(SetScores& scores, int base) {
  for (std::vector<float>& own : scores) {
    double best = 0;
    for (std::int32_t j : top_k(own, base)) best += own[j];
    const double all = std::accumulate(own.begin(), own.end(), 0.0);
    const float share = all > 0 ? static_cast<float>(best / all) : 1.0f;
    for (float& x : own) x *= share;
  }
}

/// The number of scores of each set among the `total` best scores of all sets: [sets].
std::vector<int> joint_counts(const SetScores& scores, int total) {
  std::vector<float> joint;  // [sets * candidates]
  std::vector<std::size_t> set_of;
  for (std::size_t h = 0; h < scores.size(); ++h) {
    joint.insert(joint.end(), scores[h].begin(), scores[h].end());
    set_of.resize(joint.size(), h);
  }
  std::vector<int> out(scores.size(), 0);
  for (std::int32_t j : top_k(joint, total)) ++out[set_of[j]];
  return out;
}

}  // namespace

KeepSets BudgetedEviction::after_prefill(const LayerView& view) {
  if (view.layer % s_.reuse == 0) chosen_ = choose(view);
  return chosen_;
}

/// The slots with the best scores: [budget], ascending.  scores: [candidates].
std::vector<std::int32_t> BudgetedEviction::best_of(const LayerView& view, const KeptSet& set,
                                                    const std::vector<float>& scores,
                                                    int budget) const {
  if (s_.chunk > 1) return in_chunks(scores, s_.chunk, budget);
  if (!s_.two_stages) return top_k(scores, budget);
  const int window = s_.window.window;
  const int first = static_cast<int>((budget + window) * s_.two_stages->first_share) - window;
  const auto epsilon = static_cast<float>(s_.two_stages->epsilon * s_.scorer->summed_rows(view));
  std::vector<float> weighted = output_norms(view, set);
  weighted.resize(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) weighted[i] *= scores[i] + epsilon;
  for (const std::int32_t slot : top_k(scores, std::max(0, first)))
    weighted[slot] = std::numeric_limits<float>::infinity();
  return top_k(weighted, budget);
}

/// Scores of each set -> budget of each set -> best tokens or chunks of each set, and the window.
KeepSets BudgetedEviction::choose(const LayerView& view) const {
  const WindowSettings& w = s_.window;
  const std::vector<KeptSet> sets =
      s_.one_choice ? std::vector{whole_layer(view)} : kept_sets(view, w.per_query_head);
  const int base = w.choices(view);  // mean number of tokens that a set chooses
  std::vector<int> candidates;       // [sets]: tokens before the window
  for (const KeptSet& set : sets) candidates.push_back(std::max(0, set.tokens - w.window));

  KeepSets out;
  const int total = base * static_cast<int>(sets.size());
  if (total >= std::accumulate(candidates.begin(), candidates.end(), 0)) {
    for (const KeptSet& set : sets) out.slots.push_back(all_slots(set.tokens));
  } else {
    SetScores scores;
    for (std::size_t h = 0; h < sets.size(); ++h) {
      scores.push_back(s_.scorer->scores(view, sets[h], candidates[h]));
      if (std::ssize(scores.back()) == candidates[h]) continue;
      throw runtime_error(
          "layer {}, set {}: found {} scores of a scorer, expected one for each of {} candidates",
          view.layer, h, scores.back().size(), candidates[h]);
    }
    std::vector<int> budgets(sets.size(), base);  // [sets]: tokens that each chooses
    if (s_.adaptive && view.layer >= s_.adaptive->skipped_layers) {
      if (s_.adaptive->normalize) weigh_by_concentration(scores, base);
      budgets = safeguarded_budgets(joint_counts(scores, total), candidates, base,
                                    s_.adaptive->floor_alpha, s_.adaptive->exact);
    }
    for (std::size_t h = 0; h < sets.size(); ++h) {
      out.slots.push_back(
          with_tail(best_of(view, sets[h], scores[h], budgets[h]), candidates[h], sets[h].tokens));
    }
  }
  return s_.one_choice ? in_every_set(view, out.slots[0]) : out;
}

}  // namespace turnbench
