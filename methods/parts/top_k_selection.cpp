#include "methods/parts/top_k_selection.h"

#include <algorithm>
#include <utility>

#include "methods/parts/kept_sets.h"
#include "methods/parts/scores.h"

namespace turnbench {

bool reads_all(std::span<const Candidates> lists) {
  return std::all_of(lists.begin(), lists.end(), [](const auto& list) { return list.reads_all(); });
}

Selection TopKSelection::select(const LayerView& view) {
  SelectionJobs jobs;
  begin_selection(view, jobs);
  jobs.run(*view.backend, view.scale);
  return end_selection(view);
}

void TopKSelection::begin_selection(const LayerView& view, SelectionJobs& jobs) {
  Step& step = step_.value = {};
  step.lists = begin_step(view);
  const Ranking rank = ranking(view);
  std::vector<std::int64_t> rows(view.sets.size());
  for (const Candidates& list : step.lists)
    rows[list.set] = std::max(rows[list.set], list.row + list.rows);
  step.scores.resize(view.sets.size());
  step.best.resize(step.lists.size());
  for (std::size_t i = 0; i < step.lists.size(); ++i) {
    const Candidates& list = step.lists[i];
    MatrixView<float>& of_set = step.scores[list.set];
    if ((list.competes() || rank.scores_every_set) && of_set.data == nullptr) {
      of_set = view.scratch->matrix(rows[list.set], list.columns);
      score(view, list.set, of_set, jobs);
    }
    if (!list.competes()) continue;
    MatrixView<float> of_list = of_set.rows_at(list.row, list.rows);
    if (rank.reduction) {
      const MatrixView<float> reduced = view.scratch->matrix(1, of_list.columns);
      const auto part = [&](MatrixView<float> all) {
        return rank.over_candidates ? all.columns_at(list.first, list.count) : all;
      };
      jobs.reductions.push_back({part(of_list), *rank.reduction, part(reduced)});
      of_list = reduced;
    }
    jobs.choices.push_back({{of_list.data + list.first, static_cast<std::size_t>(list.count)},
                            list.chosen,
                            &step.best[i]});
  }
}

Selection TopKSelection::end_selection(const LayerView& view) {
  const Step& step = step_.value;
  Selection out;
  for (std::size_t i = 0; i < step.lists.size(); ++i) {
    const Candidates& list = step.lists[i];
    out.slots.push_back(list.reads_all() ? all_slots(view.sets[list.set].size())
                                         : slots(view, list, step.best[i]));
  }
  if (!step.lists.empty()) end_step(view, step.scores, out);
  return out;
}

int TokenSegments::end(int tokens) const {
  return std::max(sinks, tokens - 1 - local);
}

std::vector<SlotRange> SegmentSelection::pinned(int, int, int tokens) const {
  return sinks_and_window(turn_.sinks, tokens - 1 - turn_.local, tokens);
}

std::vector<Candidates> SegmentSelection::segment_lists(const LayerView& view, bool per_query_head,
                                                        bool scores_candidates_only) const {
  std::vector<Candidates> out;
  const TokenSegments parts = segments(view.prompt_tokens);
  const std::int64_t heads = view.heads_per_set();
  for (const KeptSet& list : kept_sets(view, per_query_head)) {
    const int candidates = parts.end(list.tokens) - parts.sinks;
    out.push_back({.set = static_cast<std::size_t>(list.first_head / heads),
                   .row = list.first_head % heads,
                   .rows = list.heads,
                   .columns = scores_candidates_only ? candidates : list.tokens,
                   .first = scores_candidates_only ? 0 : parts.sinks,
                   .count = candidates,
                   .chosen = parts.chosen});
  }
  return out;
}

std::vector<std::int32_t> SegmentSelection::slots(const LayerView& view, const Candidates& list,
                                                  std::span<const std::int32_t> best) const {
  const TokenSegments parts = segments(view.prompt_tokens);
  const int tokens = view.sets[list.set].size();
  std::vector<std::int32_t> out = all_slots(parts.sinks);
  for (const std::int32_t column : best) out.push_back(parts.sinks + column);
  return with_tail(std::move(out), parts.end(tokens), tokens);
}

}  // namespace turnbench
