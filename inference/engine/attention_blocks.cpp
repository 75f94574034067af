// Selection during prefill, in blocks of query rows, and clamped attention to tokens beyond the
// maximal distance.

#include <algorithm>
#include <array>
#include <utility>

#include "common/clock.h"
#include "inference/engine/encoded_rows.h"
#include "inference/engine/layer_attention.h"
#include "inference/model/rope.h"
#include "inference/policy/policy_checks.h"

namespace turnbench {

bool selects_for_prompt(const Pass& pass) {
  return pass.kind == Pass::Kind::kPrefill && pass.sequence->policies.selects_in_prefill();
}

double causal_pairs(double rows, double tokens) {
  return rows * (tokens - rows) + 0.5 * rows * (rows + 1);
}

MatrixView<float> LayerAttention::turn_queries(Stage& stage, MatrixView<const float> q,
                                               std::int32_t first, int distance, std::int64_t row) {
  const std::int64_t rows = q.rows, half = core_.shape.head_dim / 2, count = rows * half;
  const auto positions = slots_between(first, first + static_cast<std::int32_t>(rows));
  // The queries already have their attention factor; the tables supply that of the keys.
  float* angles = core_.staging.get(2 * count);
  rerotation_tables(core_.model.rope_frequencies(), core_.model.config().rope.attention_factor,
                    positions, distance, angles, angles + count);
  stage.turns.make_room(2 * rows, half);
  float* tables = stage.turns.view.data;
  stage.memory->copy(std::array{copy_of(angles, tables, 2 * count)});
  const MatrixView<float> out = stage.far_q.view.rows_at(row, rows);
  stage.backend.copy_rows(q, out);
  stage.backend.apply_rope(out, {tables, rows, half}, {tables + count, rows, half});
  if (core_.math == Math::kBF16) stage.backend.round_to_bf16(out);
  return out;
}

LayerDecisions::Far LayerAttention::divide_by_distance(
    std::span<const KvHeadCache> sets, const Selection& selection,
    std::span<const std::vector<std::int32_t>> slots, std::int32_t position, int distance) {
  LayerDecisions::Far out;
  for (std::size_t j = 0; j < slots.size(); ++j) {
    const auto& list = selection.slots[j];
    const KvHeadCache& set = sets[j * sets.size() / slots.size()];
    const auto near = std::partition_point(list.begin(), list.end(), [&](std::int32_t slot) {
      return set.position(slot) < position - distance;
    });
    const auto middle = slots[j].begin() + (near - list.begin());
    out.far.emplace_back(slots[j].begin(), middle);
    out.near.emplace_back(middle, slots[j].end());
  }
  return out;
}

void LayerAttention::merge_far(int layer, const ForwardBatch& batch,
                               const LayerDecisions& decisions) {
  Stage& stage = core_.stage_of(layer);
  std::vector<MergeJob> jobs;
  for (std::size_t i = 0; i < decisions.far.size(); ++i) {
    const LayerDecisions::Far& far = decisions.far[i];
    if (far.near.empty()) continue;
    const std::int64_t row = batch.first_row[i];
    jobs.push_back({stage.attended.view.rows_at(row, 1), stage.lse.view.rows_at(row, 1),
                    stage.far_attended.view.rows_at(far.row, 1),
                    stage.far_lse.view.rows_at(far.row, 1)});
  }
  if (!jobs.empty()) stage.backend.merge(jobs);
}

void LayerAttention::attend_in_blocks(int layer, const Pass& pass, std::size_t index,
                                      const ForwardBatch& batch, const LayerView& view) {
  Stage& stage = core_.stage_of(layer);
  Sequence& s = *pass.sequence;
  SelectionPolicy& policy = *s.policies.selection;
  PromptSelection& prompts = *s.policies.prompt_selection();
  const std::int64_t row = batch.first_row[index];
  const auto timed = [&](Phase phase, const auto& ask) {
    const auto zone = core_.zone(phase, layer);
    const auto start = Clock::now();
    auto out = ask();
    s.counters.policy_seconds += seconds_since(start);
    return out;
  };
  const PolicyCheck check{s.policies.method, layer, core_.shape.heads};
  LayerView block = view;
  const auto rows_of_next = [&](int first) {
    block.first_position = view.first_position + first;
    block.rows = view.rows - first;
    block.queries = view.queries.rows_at(first, block.rows);
    block.sets = view.sets;
    return timed(Phase::kSelect,
                 [&] { return std::clamp(prompts.query_block_rows(block), 1, block.rows); });
  };
  int rows = rows_of_next(0);  // also determines the pinned tokens
  LayerKv& kv = s.at(layer).kv;
  const AppendPlan plan =
      transfers_.pinned_rows(s, layer, std::span(batch.positions).subspan(row, view.rows));
  std::vector<AppendJob> jobs;
  transfers_.add_append_jobs(layer, index, batch, plan, jobs);
  append_rows(stage.backend, jobs, s.policies.row_codec());
  kv.written(plan, view.rows, transfers_.ledger_of(s, layer));
  Readable readable = kv.readable();
  std::vector<KvHeadCache> decoded;
  if (s.policies.codec) {
    readable.sets =
        readable.is_copy ? decoded_sets(core_, s, layer, readable.sets, decoded) : view.sets;
  }
  for (int first = 0; first < view.rows; first += rows) {
    if (first > 0) rows = rows_of_next(first);
    block.rows = rows;
    block.queries = view.queries.rows_at(first, rows);
    const int distance = policy.traits().max_distance;
    if (distance > 0) {
      stage.far_q.make_room(rows, batch.q_width);
      stage.far_attended.make_room(rows, batch.q_width);
      stage.far_lse.make_room(rows, core_.shape.heads);
      block.far_queries = turn_queries(stage, block.queries, block.first_position, distance, 0);
    }
    const std::int32_t end = block.first_position + block.rows;
    const Selection selection = timed(Phase::kSelect, [&] { return policy.select(block); });
    check.selection(selection, policy, view.sets, end);
    attend_block(block, readable.sets, readable.lists(selection.slots), distance, row + first,
                 batch);
    const std::size_t lists = selection.all() ? 1 : selection.slots.size();
    for (std::size_t j = 0; j < lists; ++j) {
      const double tokens = selection.all() ? end : static_cast<double>(selection.slots[j].size());
      const double pairs =
          causal_pairs(block.rows, tokens) * core_.shape.heads / static_cast<double>(lists);
      s.counters.prefill_pairs += pairs;
      core_.operations.attention += core_.flops_of_pairs(pairs);
    }
    block.sets = readable.sets;
    timed(Phase::kIndex, [&] {
      prompts.after_attention(block, stage.lse.view.rows_at(row + first, block.rows));
      return 0;
    });
  }
}

void LayerAttention::attend_block(const LayerView& block, std::span<const KvHeadCache> sets,
                                  const SlotLists& lists, int max_distance, std::int64_t row,
                                  const ForwardBatch& batch) {
  Stage& stage = core_.stage_of(block.layer);
  const std::int32_t last = block.first_position + block.rows - 1;
  const int limit = max_distance, window = core_.model.config().sliding_window[block.layer];
  const bool all = lists.empty();
  const auto count = all ? std::ssize(sets) : std::ssize(lists), heads = core_.shape.heads / count;
  std::vector<KvHeadCache> gathered;
  gathered.reserve(2 * lists.size());
  std::vector<Copy> copies;
  std::vector<AttentionJob> jobs;
  std::vector<MergeJob> merges;
  for (std::int64_t j = 0; j < count; ++j) {
    const KvHeadCache& set = sets[j * std::ssize(sets) / count];
    const auto own = [&](MatrixView<float> rows, std::int64_t first, std::int64_t of_head) {
      return rows.rows_at(first, block.rows).columns_at(j * heads * of_head, heads * of_head);
    };
    const auto add_job = [&](const KvHeadCache& keys, const MatrixView<float>& q,
                             const MatrixView<float>& out,
                             const MatrixView<float>& lse) -> AttentionJob& {
      AttentionJob& job = jobs.emplace_back();
      job.keys = &keys;
      job.q = q;
      job.positions = batch.positions.data() + row;
      job.out = out;
      job.lse = lse;
      job.pass = {block.first_position, block.rows};
      job.math = core_.math;
      return job;
    };
    const MatrixView<float> out = own(stage.attended.view, row, core_.shape.head_dim),
                            lse = own(stage.lse.view, row, 1);
    if (all) {
      add_job(set, own(stage.q.view, row, core_.shape.head_dim), out, lse).sliding_window = window;
      continue;
    }
    const std::span<const std::int32_t> list = lists[j];
    // Tokens near to some row, and tokens far from some row.
    const auto below = [&](std::int32_t position) {
      return static_cast<std::size_t>(std::lower_bound(list.begin(), list.end(), position) -
                                      list.begin());
    };
    const std::size_t first_near = limit > 0 ? below(block.first_position - limit) : 0;
    const std::size_t end_far = limit > 0 ? below(last - limit) : 0;
    gathered.emplace_back(stage.gathered_pool).append_slots(set, list.subspan(first_near), copies);
    AttentionJob& near =
        add_job(gathered.back(), own(stage.q.view, row, core_.shape.head_dim), out, lse);
    near.sliding_window = limit == 0    ? window
                          : window == 0 ? limit + 1
                                        : std::min(window, limit + 1);
    if (end_far == 0 || (window > 0 && window <= limit + 1)) continue;
    // With these shifted positions, the causal mask of each row contains exactly the tokens that
    // are far from it.
    gathered.emplace_back(stage.gathered_pool)
        .append_slots(set, list.first(end_far), copies, KeyRows::kPreRopeAsKeys, limit + 1);
    const MatrixView<float> far_out = own(stage.far_attended.view, 0, core_.shape.head_dim),
                            far_lse = own(stage.far_lse.view, 0, 1);
    AttentionJob& far =
        add_job(gathered.back(), own(stage.far_q.view, 0, core_.shape.head_dim), far_out, far_lse);
    far.sliding_window = window == 0 ? 0 : window - (limit + 1);
    merges.push_back({out, lse, far_out, far_lse});
  }
  stage.memory->copy(copies);
  stage.backend.attend(core_.scale, jobs);
  if (!merges.empty()) stage.backend.merge(merges);
}

}  // namespace turnbench
