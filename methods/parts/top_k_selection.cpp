#include "methods/parts/top_k_selection.h"

#include <algorithm>
#include <utility>

#include "inference/backend/backend.h"
#include "methods/parts/kept_sets.h"
#include "methods/parts/scores.h"

namespace turnbench {

void SelectionJobs::run(Backend& backend, float scale) const {
  if (choices.empty()) return;
  if (!keys.empty()) backend.score_keys(scale, keys);
  if (!pages.empty()) backend.score_pages(scale, pages);
  if (!vectors.empty()) backend.score_vectors(scale, vectors);
  if (!codes.empty()) backend.score_codes(scale, codes);
  if (!dimensions.empty()) backend.score_dimensions(scale, dimensions);
  if (!reductions.empty()) backend.reduce_heads(reductions);
  backend.top_k(choices);
}

Selection TopKSelection::select(const LayerView& view) {
  if (!begin_step(view)) return {};
  const std::vector<Candidates> lists = candidates(view);
  const Ranking rank = ranking(view);
  std::vector<MatrixView<float>> scores(view.sets.size());
  SelectionJobs jobs;
  const auto score_set = [&](std::size_t set) {
    if (scores[set].data != nullptr) return;
    scores[set] = view.scratch->matrix(score_rows(view), score_columns(view, set));
    score(view, set, scores[set], jobs);
  };
  std::vector<std::vector<std::int32_t>> best(lists.size());
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const Candidates& list = lists[i];
    if (list.reads_all()) continue;
    score_set(list.set);
    MatrixView<float> of_list = scores[list.set].rows_at(list.row, list.rows);
    if (rank.reduction) {
      const MatrixView<float> reduced = view.scratch->matrix(1, of_list.columns);
      const auto part = [&](MatrixView<float> all) {
        return rank.over_candidates ? all.columns_at(list.first, list.count) : all;
      };
      jobs.reductions.push_back({part(of_list), *rank.reduction, part(reduced)});
      of_list = reduced;
    }
    jobs.choices.push_back(
        {{of_list.data + list.first, static_cast<std::size_t>(list.count)}, list.chosen, &best[i]});
  }
  if (rank.scores_every_set && !jobs.choices.empty()) {
    for (std::size_t s = 0; s < scores.size(); ++s) score_set(s);
  }
  jobs.run(*view.backend, view.scale);
  Selection out;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    out.slots.push_back(lists[i].reads_all() ? all_slots(view.sets[lists[i].set].size())
                                             : slots(view, lists[i], best[i]));
  }
  end_step(view, scores, out);
  return out;
}

int TokenSegments::end(int tokens) const {
  return std::max(sinks, tokens - 1 - local);
}

std::vector<SlotRange> SegmentSelection::pinned(int, int, int tokens) const {
  return sinks_and_window(segments_.sinks, tokens - 1 - segments_.local, tokens);
}

std::vector<Candidates> SegmentSelection::candidates(const LayerView& view) const {
  std::vector<Candidates> out;
  const std::int64_t heads = view.heads_per_set();
  for (const KeptSet& list : kept_sets(view, per_query_head())) {
    out.push_back({.set = static_cast<std::size_t>(list.first_head / heads),
                   .row = list.first_head % heads,
                   .rows = list.heads,
                   .first = scores_candidates_only() ? 0 : segments_.sinks,
                   .count = segments_.end(list.tokens) - segments_.sinks,
                   .chosen = segments_.chosen});
  }
  return out;
}

std::int64_t SegmentSelection::score_columns(const LayerView& view, std::size_t set) const {
  const int tokens = view.sets[set].size();
  return scores_candidates_only() ? segments_.end(tokens) - segments_.sinks : tokens;
}

std::vector<std::int32_t> SegmentSelection::slots(const LayerView& view, const Candidates& list,
                                                  std::span<const std::int32_t> best) const {
  const int tokens = view.sets[list.set].size();
  std::vector<std::int32_t> out = all_slots(segments_.sinks);
  for (const std::int32_t column : best) out.push_back(segments_.sinks + column);
  return with_tail(std::move(out), segments_.end(tokens), tokens);
}

}  // namespace turnbench
