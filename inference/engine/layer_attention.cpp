#include "inference/engine/layer_attention.h"

#include <algorithm>

#include "common/clock.h"
#include "common/error.h"
#include "common/random.h"
#include "inference/engine/encoded_rows.h"
#include "inference/policy/policy_checks.h"

namespace turnbench {

namespace {

/// The number of slots in at least one of the lists.
std::size_t union_size(std::span<const std::vector<std::int32_t>> lists) {
  if (lists.size() == 1) return lists[0].size();
  std::vector<std::int32_t> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  std::sort(all.begin(), all.end());
  return static_cast<std::size_t>(std::unique(all.begin(), all.end()) - all.begin());
}

/// The merged lists of each set; empty if sets have only one list, or too many query heads to
/// merge.
std::vector<JoinedList> joined_lists(Backend& backend, const Selection& selection,
                                     std::span<const std::vector<std::int32_t>> working_slots,
                                     std::span<const KvHeadCache> sets, int heads) {
  const std::size_t lists = selection.slots.size();
  if (lists <= sets.size() || heads > kMostJoinedHeads * static_cast<int>(sets.size())) return {};
  std::vector<std::int32_t> tokens;
  for (const KvHeadCache& set : sets) tokens.push_back(set.size());
  return join_lists(backend, selection.slots, working_slots, tokens,
                    heads / static_cast<int>(lists));
}

bool clamps_distance(const Pass& pass) {
  return pass.kind == Pass::Kind::kDecode && pass.sequence->policies.traits().max_distance > 0;
}

/// Whether the attention of all rows of a prompt is read, and not only that of rows with logits.
bool reads_all_rows(const Pass& pass) {
  const auto has_columns = [](const Sequence* s) {
    return s->policies.eviction && !s->policies.eviction->columns().empty();
  };
  return pass.observer != nullptr || pass.all_logits || selects_for_prompt(pass) ||
         has_columns(pass.sequence) ||
         std::any_of(pass.forks.begin(), pass.forks.end(), has_columns);
}

/// The unread rows of a pass in the last layer.
int unread_in_last_layer(const Pass& pass, std::span<const Pass> passes) {
  const bool follows = std::any_of(passes.begin(), passes.end(),
                                   [](const Pass& other) { return other.follows >= 0; });
  return follows || reads_all_rows(pass) ? 0 : static_cast<int>(std::ssize(pass.tokens)) - 1;
}

/// The selections of more sequences begin only while the scratch of others is below this size.
constexpr std::size_t kMostSelectionScratch = std::size_t{64} << 20;

}  // namespace

/// Stores the last queries of a pass in the sequence's QueryTail; for steps only if a policy or an
/// observer may read them, because the copy waits for the device.  row: the pass's first row.
void LayerAttention::remember_queries(int layer, const Pass& pass, std::int64_t row,
                                      const ForwardBatch& batch) {
  QueryTail& tail = pass.sequence->at(layer).tail;
  if (pass.kind == Pass::Kind::kPrefill) {
    if (pass.sequence->answered) tail.clear();  // even if the answer's queries were not stored
  } else if (pass.observer == nullptr && !pass.sequence->policies.read_window_in_answers()) {
    return;
  }
  const std::int64_t rows = std::ssize(pass.tokens),
                     count = std::min<std::int64_t>(rows, tail.capacity());
  if (count == 0) return;
  const std::int64_t first = row + rows - count;
  float* queries = core_.staging.get(count * batch.q_width);
  const Stage& stage = core_.stage_of(layer);
  stage.memory->copy_floats(stage.q.view.row(first), queries, count * batch.q_width);
  for (std::int64_t r = 0; r < count; ++r)
    tail.push(queries + r * batch.q_width, batch.positions[first + r]);
}

LayerDecisions LayerAttention::ask_policies(int layer, std::span<const Pass> passes,
                                            const ForwardBatch& batch) {
  const auto zone = core_.zone(Phase::kSelect, layer);
  Stage& stage = core_.stage_of(layer);
  LayerDecisions out(layer, passes.size());
  const std::int64_t far_rows = std::count_if(passes.begin(), passes.end(), clamps_distance);
  if (far_rows > 0) {
    stage.far_q.make_room(far_rows, batch.q_width);
    stage.far_attended.make_room(far_rows, batch.q_width);
    stage.far_lse.make_room(far_rows, core_.shape.heads);
  }
  SelectionJobs jobs;
  std::size_t first = 0;  // the first pass whose selection is not complete
  for (std::size_t i = 0; i < passes.size(); ++i) {
    if (stage.selection_scratch.used_bytes() > kMostSelectionScratch) {
      end_passes(std::exchange(first, i), i, passes, batch, std::exchange(jobs, {}), out);
    }
    if (first == i) stage.selection_scratch.clear();
    begin_pass(i, passes[i], batch, jobs, out);
  }
  end_passes(first, passes.size(), passes, batch, std::move(jobs), out);
  return out;
}

void LayerAttention::begin_pass(std::size_t i, const Pass& pass, const ForwardBatch& batch,
                                SelectionJobs& jobs, LayerDecisions& out) {
  const int layer = out.layer, rows = static_cast<int>(pass.tokens.size());
  Stage& stage = core_.stage_of(layer);
  Sequence& s = *pass.sequence;
  const std::int64_t row = batch.first_row[i];
  remember_queries(layer, pass, row, batch);
  LayerState& state = s.at(layer);
  const std::span<const KvHeadCache> sets =
      decoded_sets(core_, s, layer, s.sets(layer), out.decoded[i]);
  const bool decodes = pass.kind == Pass::Kind::kDecode;
  const DialogueView& dialogue = batch.dialogues[i];
  const std::uint64_t noise_seed =
      Random::from({dialogue.seed, static_cast<std::uint64_t>(layer)}).next();
  out.stats.emplace_back(stage.backend, core_.shape, core_.scale,
                         core_.model.config().sliding_window[layer], sets,
                         QueryRows{stage.q.view.rows_at(row, rows), batch.positions.data() + row},
                         &state.tail, decodes ? nullptr : &state.columns, noise_seed);
  const int prompt_tokens = decodes ? s.prompt_tokens : static_cast<int>(s.tokens.size());
  out.views.push_back(LayerView{layer, core_.shape, sets, out.stats.back(), dialogue,
                                batch.positions[row], rows, prompt_tokens,
                                decodes ? s.generated : 0});
  LayerView& view = out.views.back();
  core_.add_tools(view, stage.q.view.rows_at(row, rows));
  view.index_path = transfers_.index_path(s, layer);
  const ForwardBatch::Ahead* ahead = batch.ahead_of(i, layer);
  if (ahead == nullptr) state.kv.settle();  // policies may read the host's keys
  const auto start = Clock::now();
  // Policies and observers may read keys: prefill policies in prompts, selection policies in
  // steps (unless their selection was prefetched), and observers of selections.
  const bool asks = decodes ? s.policies.selection && (ahead == nullptr || pass.observer != nullptr)
                            : s.policies.prefill || s.policies.selection;
  if (asks) stage.memory->synchronize();
  if (!decodes && s.policies.prefill && rows > 1) {
    out.patterns[i] = s.policies.prefill->plan(view);
    PolicyCheck{s.policies.method, layer, core_.shape.heads}.patterns(out.patterns[i],
                                                                      {batch.positions[row], rows});
    s.counters.policy_seconds += seconds_since(start);
  } else if (decodes && s.policies.selection && ahead == nullptr) {
    if (clamps_distance(pass)) {
      out.far[i].row = out.far_rows++;
      view.far_queries = turn_queries(stage, view.queries, view.first_position,
                                      s.policies.traits().max_distance, out.far[i].row);
    }
    out.joint[i] = capability<JointSelection>(s.policies.selection.get());
    if (out.joint[i] != nullptr) out.joint[i]->begin_selection(view, jobs);
    s.counters.policy_seconds += seconds_since(start);
  }
}

void LayerAttention::end_passes(std::size_t first, std::size_t end, std::span<const Pass> passes,
                                const ForwardBatch& batch, SelectionJobs jobs,
                                LayerDecisions& out) {
  const int layer = out.layer;
  Stage& stage = core_.stage_of(layer);
  const auto begin = Clock::now();
  jobs.run(stage.backend, core_.scale);
  const auto joint = std::span(out.joint).subspan(first, end - first);
  const auto sharing = std::ssize(joint) - std::count(joint.begin(), joint.end(), nullptr);
  const double share = sharing > 0 ? seconds_since(begin) / static_cast<double>(sharing) : 0;
  for (std::size_t i = first; i < end; ++i) {
    const Pass& pass = passes[i];
    Sequence& s = *pass.sequence;
    LayerState& state = s.at(layer);
    LayerView& view = out.views[i];
    const bool decodes = pass.kind == Pass::Kind::kDecode;
    const ForwardBatch::Ahead* ahead = batch.ahead_of(i, layer);
    if (ahead != nullptr) {
      out.selections[i] = ahead->selection;
    } else if (decodes && s.policies.selection) {
      const auto start = Clock::now();
      out.selections[i] = out.joint[i] != nullptr ? out.joint[i]->end_selection(view)
                                                  : s.policies.selection->select(view);
      PolicyCheck{s.policies.method, layer, core_.shape.heads}.selection(
          out.selections[i], *s.policies.selection, view.sets);
      s.counters.policy_seconds += seconds_since(start) + (out.joint[i] != nullptr ? share : 0);
    }
    if (decodes && s.policies.selection && pass.observer != nullptr) {
      state.kv.settle();
      state.kv.settle_pinned();
      pass.observer->selection(view, out.selections[i]);
    }
    {
      const auto zone = core_.zone(Phase::kFetch, layer);
      out.readable[i] = ahead != nullptr ? ahead->readable
                        : decodes        ? transfers_.fetch(s, view, out.selections[i])
                                         : state.kv.readable();
      state.kv.await_fetch();
    }
    if (s.policies.codec && !selects_for_prompt(pass)) {
      Readable& readable = out.readable[i];
      readable.sets = readable.is_copy
                          ? decoded_sets(core_, s, layer, readable.sets, out.decoded_reads[i])
                          : view.sets;
    }
    if (decodes && s.policies.offloads_during_decode() != nullptr)
      state.kv.remember_read(out.selections[i].slots);
    if (view.far_queries.data != nullptr && !out.selections[i].all()) {
      auto divided = divide_by_distance(view.sets, out.selections[i],
                                        out.readable[i].lists(out.selections[i].slots),
                                        view.first_position, s.policies.traits().max_distance);
      divided.row = out.far[i].row;
      out.far[i] = std::move(divided);
    } else {
      out.joined[i] = joined_lists(stage.backend, out.selections[i], out.readable[i].slots,
                                   view.sets, core_.shape.heads);
    }
  }
}

std::vector<AttentionJob> LayerAttention::attention_jobs(int layer, std::span<const Pass> passes,
                                                         const ForwardBatch& batch,
                                                         const LayerDecisions& decisions) {
  Stage& stage = core_.stage_of(layer);
  std::vector<AttentionJob> jobs;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    if (selects_for_prompt(passes[i])) continue;
    const LayerDecisions::Far& divided = decisions.far[i];
    const Selection& selection = decisions.selections[i];
    const auto& patterns = decisions.patterns[i];
    const std::span<const KvHeadCache> sets = decisions.readable[i].sets;
    const SlotLists& slots = decisions.readable[i].lists(selection.slots);
    const std::vector<JoinedList>& joined = decisions.joined[i];
    const std::int64_t lists =
        slots.empty() || !joined.empty() ? std::ssize(sets) : std::ssize(slots);
    const std::int64_t heads = core_.shape.heads / lists, row = batch.first_row[i],
                       rows = std::ssize(passes[i].tokens);
    for (std::int64_t j = 0; j < lists; ++j) {
      const std::int64_t head = j * heads;
      const auto own = [&](MatrixView<float> all, std::int64_t of_head) {
        return all.rows_at(row, rows).columns_at(head * of_head, heads * of_head);
      };
      AttentionJob& job = jobs.emplace_back();
      job.keys = &sets[j * std::ssize(sets) / lists];
      job.q = own(stage.q.view, core_.shape.head_dim);
      job.positions = batch.positions.data() + row;
      job.out = own(stage.attended.view, core_.shape.head_dim);
      job.lse = own(stage.lse.view, 1);
      job.sliding_window = core_.model.config().sliding_window[layer];
      job.math = core_.math;
      if (!joined.empty()) {
        job.slots = &joined[j].slots;
        job.slot_heads = &joined[j].heads;
      } else if (!slots.empty()) {
        job.slots = &slots[j];
      }
      if (!patterns.empty()) job.patterns = patterns.data() + head;
      job.pass = {batch.positions[row], job.rows()};
      job.unread_rows = decisions.unread_rows[i];
      if (divided.near.empty()) continue;
      job.slots = &divided.near[j];
      AttentionJob far = job;
      const auto own_far = [&](const Stage::Rows& all, std::int64_t of_head) {
        return all.view.rows_at(divided.row, 1).columns_at(head * of_head, heads * of_head);
      };
      far.q = own_far(stage.far_q, core_.shape.head_dim);
      far.out = own_far(stage.far_attended, core_.shape.head_dim);
      far.lse = own_far(stage.far_lse, 1);
      far.slots = &divided.far[j];
      far.pre_rope = true;
      jobs.push_back(far);
    }
  }
  return jobs;
}

void LayerAttention::blend_attention(int layer, const ForwardBatch& batch,
                                     const LayerDecisions& decisions) {
  Stage& stage = core_.stage_of(layer);
  std::vector<BlendJob> jobs;
  for (std::size_t i = 0; i < decisions.selections.size(); ++i) {
    const Blend& blend = decisions.selections[i].blend;
    if (blend.weights == nullptr) continue;
    const MatrixView<float> out(stage.attended.view.row(batch.first_row[i]), core_.shape.heads,
                                core_.shape.head_dim);
    const std::int64_t heads = core_.shape.heads / blend.vectors.rows;
    for (std::int64_t s = 0; s < blend.vectors.rows; ++s) {
      jobs.push_back(
          {out.rows_at(s * heads, heads), blend.weights + s * heads, blend.vectors.row(s)});
    }
  }
  if (!jobs.empty()) stage.backend.blend(jobs);
}

/// Updates the counters of computed pairs and of tokens read by a layer's attention.  Pairs with
/// evicted tokens are not computed; if a pattern applies to a cache with evictions, the smaller
/// count is used.
void LayerAttention::count_attention(std::size_t index, const Pass& pass,
                                     std::int32_t first_position,
                                     const LayerDecisions& decisions) const {
  Sequence& s = *pass.sequence;
  if (pass.kind == Pass::Kind::kDecode) {
    count_reads(s, decisions.layer, decisions.selections[index], decisions.joined[index]);
    return;
  }
  const std::vector<HeadPattern>& patterns = decisions.patterns[index];
  const PatternPass range{first_position, static_cast<int>(pass.tokens.size())};
  // With selection, slots equal positions, and there may be tokens after those of the pass.
  const bool selects = selects_for_prompt(pass);
  const double tokens =
      selects ? first_position + range.rows : static_cast<double>(s.tokens.size());
  s.counters.prefill_pairs_dense += core_.shape.heads * causal_pairs(range.rows, tokens);
  if (selects) return;
  const auto& sets = s.sets(decisions.layer);
  for (std::size_t head = 0; head < static_cast<std::size_t>(core_.shape.heads); ++head) {
    const KvHeadCache& set = sets[head * sets.size() / static_cast<std::size_t>(core_.shape.heads)];
    double pairs = causal_pairs(range.rows, set.size());
    if (!patterns.empty())
      pairs = std::min(pairs, static_cast<double>(pattern_pairs(patterns[head], range)));
    s.counters.prefill_pairs += pairs;
    const double computed = decisions.unread_rows[index] > 0 ? set.size() : pairs;
    core_.operations.attention += core_.flops_of_pairs(computed);
  }
}

void LayerAttention::run(int layer, std::span<const Pass> passes, ForwardBatch& batch) {
  Stage& stage = core_.stage_of(layer);
  LayerDecisions decisions = ask_policies(layer, passes, batch);
  transfers_.fetch_ahead(layer, passes, batch);
  const auto zone = core_.zone(Phase::kAttend, layer);
  if (layer + 1 == core_.shape.layers && stage.backend.leaves_out_rows()) {
    for (std::size_t i = 0; i < passes.size(); ++i)
      decisions.unread_rows[i] = unread_in_last_layer(passes[i], passes);
  }
  const std::vector<AttentionJob> jobs = attention_jobs(layer, passes, batch, decisions);
  for (std::size_t i = 0; i < passes.size(); ++i)
    count_attention(i, passes[i], batch.positions[batch.first_row[i]], decisions);
  stage.backend.attend(core_.scale, jobs);
  merge_far(layer, batch, decisions);
  blend_attention(layer, batch, decisions);
  for (std::size_t i = 0; i < passes.size(); ++i) {
    AttentionStats& stats = decisions.stats[i];
    Sequence& s = *passes[i].sequence;
    const bool in_blocks = selects_for_prompt(passes[i]);
    if (in_blocks) {
      attend_in_blocks(layer, passes[i], i, batch, decisions.views[i]);
    } else if (PromptSelection* prompts = s.policies.prompt_selection()) {
      const auto index = core_.zone(Phase::kIndex, layer);
      const auto start = Clock::now();
      prompts->after_attention(decisions.views[i], stage.lse.view.rows_at(batch.first_row[i], 1));
      s.counters.policy_seconds += seconds_since(start);
    }
    if (!in_blocks && decisions.patterns[i].empty() && decisions.selections[i].all() &&
        decisions.unread_rows[i] == 0) {
      stats.set_log_sum_exp(
          stage.lse.view.rows_at(batch.first_row[i], std::ssize(passes[i].tokens)));
    }
    s.at(layer).kv.end_step(transfers_.ledger_of(s, layer));
    if (batch.layer_ends) after_attention(layer, passes[i], stats, decisions.views[i]);
  }
  follow_outputs(layer, passes, batch);
}

void LayerAttention::follow_outputs(int layer, std::span<const Pass> passes,
                                    const ForwardBatch& batch) {
  Stage& stage = core_.stage_of(layer);
  for (std::size_t i = 0; i < passes.size(); ++i) {
    if (passes[i].follows < 0) continue;
    const auto outputs = [&](std::size_t pass) {
      return stage.attended.view.rows_at(batch.first_row[pass], std::ssize(passes[i].tokens));
    };
    const MatrixView<float> own = outputs(i), followed = outputs(passes[i].follows);
    if (passes[i].observer != nullptr) {
      const std::int64_t count = own.rows * own.columns;
      float* copies = core_.staging.get(2 * count);
      stage.memory->copy_floats(own.data, copies, count);
      stage.memory->copy_floats(followed.data, copies + count, count);
      passes[i].observer->outputs(
          {layer, {copies, own.rows, own.columns}, {copies + count, own.rows, own.columns}});
    }
    stage.backend.copy_rows(followed, own);
  }
}

void LayerAttention::after_attention(int layer, const Pass& pass, AttentionStats& stats,
                                     const LayerView& view) {
  const auto zone = core_.zone(Phase::kIndex, layer);
  Memory& memory = *core_.stage_of(layer).memory;
  Sequence& s = *pass.sequence;
  const auto start = Clock::now();
  if (pass.kind == Pass::Kind::kDecode) {
    if (s.policies.evict_in_answers() && pass.evict) {
      s.at(layer).kv.settle();  // the policy may read the host's keys
      memory.synchronize();
      const KeepSets kept = s.policies.eviction->after_decode(view);
      keep(s, layer, kept, s.sets(layer));
      // Device copies of an offloaded layer stay valid as long as slots and keys do not change.
      if (!kept.keep_all() || s.policies.shifts_positions()) s.at(layer).kv.forget_slots();
      s.counters.policy_seconds += seconds_since(start);
    }
    encode_groups(core_, s, layer);
    return;
  }
  if (pass.observer != nullptr) {
    memory.synchronize();
    pass.observer->attention(view);
  }
  if (pass.evict) count_columns(layer, pass, stats, view);
  if (!pass.prompt_end) {
    // A layer that stays on the device for the answer is not offloaded between the chunks of a
    // prompt either, so that transfers do not depend on the chunking.
    const SelectionPolicy* selection = s.policies.selection.get();
    const bool holds = s.policies.traits().reads_pinned_only;
    if (holds || !selection || !selection->demand(prompt_size(view), nullptr).everything)
      transfers_.move_to_host(s, layer, holds ? &view : nullptr, selection);
    return;
  }
  // The sequence itself if there are no forks; otherwise each fork, from the cache of the shared
  // prefix.
  std::vector<Sequence*> forks = pass.forks;
  if (forks.empty()) forks.push_back(&s);
  memory.synchronize();
  LayerState& state = s.at(layer);
  if (s.policies.codec) state.kv.settle_pinned();  // forks decode rows that they share with it
  LayerMemo memo;
  LayerView shared = view;
  shared.memo = &memo;
  for (Sequence* fork : forks) {
    if (fork != &s) {
      fork->at(layer).tail.assign_last(state.tail);
      fork->at(layer).kv.assign(s.sets(layer));
    }
    if (!pass.evict || !fork->policies.has_scoring_passes(view.prompt_tokens))
      end_prompt(s, *fork, pass.evict, stats, shared);
  }
  state.columns.seconds = 0;
  if (pass.forks.empty()) {  // slots have been reassigned
    state.columns.by_rule.clear();
    state.columns.moments.clear();
  }
}

void LayerAttention::end_prompt(Sequence& from, Sequence& fork, bool evict, AttentionStats& stats,
                                const LayerView& view) {
  const int layer = view.layer;
  const auto began = Clock::now();
  const KeepSets kept =
      fork.policies.eviction && evict ? fork.policies.eviction->after_prefill(view) : KeepSets{};
  Stage& stage = core_.stage_of(layer);
  if (!kept.keep_all() || fork.policies.shifts_positions()) decode_groups(core_, fork, layer);
  keep(fork, layer, kept, from.sets(layer));
  encode_groups(core_, fork, layer);
  if (!kept.keep_all() || fork.policies.shifts_positions()) fork.at(layer).kv.forget_slots();
  SelectionPolicy* selection =  // otherwise the fork gets a clone after the last layer
      (from.policies.selects_in_prefill() ? from : fork).policies.selection.get();
  if (selection != nullptr || fork.policies.placement.host) {
    stage.memory->synchronize();
    std::vector<KvHeadCache> decoded;
    const std::span<const KvHeadCache> left =
        decoded_sets(core_, fork, layer, fork.sets(layer), decoded);
    AttentionStats own_stats = stats.for_sets(left);
    LayerView own{view.layer, view.shape,         left,
                  own_stats,  view.dialogue,      view.first_position,
                  view.rows,  view.prompt_tokens, view.generated};
    core_.add_tools(own, view.queries);
    own.scratch->clear();
    LayerMemo own_memo;  // evicted and encoded caches are not shared
    own.memo = kept.keep_all() && fork.at(layer).kv.newest() == nullptr ? view.memo : &own_memo;
    own.goes_to_host = fork.policies.placement.host;
    if (selection != nullptr) selection->after_prefill(own);
    transfers_.move_to_host(fork, layer, &own, selection);
  }
  if (fork.policies.eviction || fork.policies.selection) {
    fork.counters.policy_seconds += seconds_since(began);
  }
  if (fork.policies.eviction && !fork.policies.eviction->columns().empty()) {
    fork.counters.policy_seconds += from.at(layer).columns.seconds;
  }
}

void LayerAttention::count_reads(Sequence& s, int layer, const Selection& selection,
                                 std::span<const JoinedList> joined) const {
  const auto& sets = s.sets(layer);
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const std::size_t per_set = selection.all() ? 0 : selection.slots.size() / sets.size();
    const std::span lists = std::span(selection.slots).subspan(i * per_set, per_set);
    s.counters.attended_tokens += static_cast<double>(selection.all()  ? sets[i].size()
                                                      : joined.empty() ? union_size(lists)
                                                                       : joined[i].slots.size());
    ++s.counters.attentions;
  }
}

}  // namespace turnbench
