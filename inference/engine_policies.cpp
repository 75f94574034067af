// The part of the engine that talks to policies: what each layer's attention computes, what stays
// cached behind it, and what that costs.

#include <algorithm>
#include <numeric>

#include "common/clock.h"
#include "common/error.h"
#include "common/random.h"
#include "inference/engine.h"
#include "inference/policy_checks.h"

namespace turnbench {
namespace {

constexpr std::int32_t kFilledAtOnce = 64 * kPageTokens;  // of made-up keys and values

std::vector<std::int32_t> all_slots(const KvSet& set) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(set.size()));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

/// Tokens read by at least one of the lists.
std::size_t union_size(std::span<const std::vector<std::int32_t>> lists) {
  if (lists.size() == 1) return lists[0].size();
  std::vector<std::int32_t> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  std::sort(all.begin(), all.end());
  return static_cast<std::size_t>(std::unique(all.begin(), all.end()) - all.begin());
}

}  // namespace

void Engine::append_keys(int layer, std::span<const Pass> passes, const Layout& layout) {
  Stage& stage = stage_of(layer);
  const float *k = stage.k.data(), *v = stage.v.data(),
              *raw_k = layout.raw_keys ? stage.raw_k.data() : nullptr;
  const auto head_dim = static_cast<std::size_t>(shape_.head_dim);
  std::vector<AppendJob> jobs;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    auto& sets = passes[i].sequence->cache.layer(layer);
    const std::size_t first = layout.first_row[i], rows = passes[i].tokens.size();
    for (std::size_t s = 0; s < sets.size(); ++s) {
      const std::size_t kv_head = s * static_cast<std::size_t>(shape_.kv_heads) / sets.size();
      const std::size_t at = first * layout.kv_width + kv_head * head_dim;
      jobs.push_back({&sets[s], sets[s].size(), static_cast<int>(rows), k + at, v + at,
                      raw_k == nullptr ? nullptr : raw_k + at, layout.kv_width});
      sets[s].extend(std::span(layout.positions).subspan(first, rows));
    }
  }
  stage.backend.append(jobs);
}

/// The pass's last queries, as many as its sequence remembers; `row` is the pass's first.
void Engine::remember_queries(int layer, const Pass& pass, std::size_t row, const Layout& layout) {
  QueryTail& tail = pass.sequence->tails[static_cast<std::size_t>(layer)];
  const std::size_t rows = pass.tokens.size(),
                    count = std::min(rows, static_cast<std::size_t>(tail.capacity()));
  if (count == 0) return;
  const std::size_t first = row + rows - count;
  float* queries = staging_.get(count * layout.q_width);
  const Stage& stage = stage_of(layer);
  stage.memory->copy_floats(stage.q.data() + first * layout.q_width, queries,
                            count * layout.q_width);
  for (std::size_t r = 0; r < count; ++r)
    tail.push(queries + r * layout.q_width, layout.positions[first + r]);
}

void Engine::attention_layer(int layer, std::span<const Pass> passes, const Layout& layout) {
  Stage& stage = stage_of(layer);
  const float* q = stage.q.data();
  float *attended = stage.attended.data(), *lse = stage.lse.data();
  const auto head_dim = static_cast<std::size_t>(shape_.head_dim);
  const int window = model_.config().sliding_window[static_cast<std::size_t>(layer)];
  const std::size_t n = passes.size();

  // What the policies want, pass by pass.
  std::vector<AttentionStats> stats;
  std::vector<LayerView> views;
  std::vector<std::vector<HeadPattern>> patterns(n);
  std::vector<Selection> selections(n);
  stats.reserve(n);
  views.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    const Pass& pass = passes[i];
    Sequence& s = *pass.sequence;
    const int rows = static_cast<int>(pass.tokens.size());
    const std::size_t row = layout.first_row[i];
    remember_queries(layer, pass, row, layout);
    const auto& sets = s.cache.layer(layer);
    const bool decodes = pass.kind == Pass::Kind::kDecode;
    const DialogueView& dialogue = layout.dialogues[i];
    const std::uint64_t noise_seed =
        Random::from({dialogue.seed, static_cast<std::uint64_t>(layer)}).next();
    stats.emplace_back(
        stage.backend, shape_, scale_, window, sets,
        QueryRows{q + row * layout.q_width, layout.q_width, layout.positions.data() + row, rows},
        &s.tails[static_cast<std::size_t>(layer)],
        decodes ? nullptr : &s.columns[static_cast<std::size_t>(layer)], noise_seed);
    const int prompt_tokens = decodes ? s.prompt_tokens : static_cast<int>(s.tokens.size());
    views.push_back(LayerView{layer, shape_, sets, stats.back(), dialogue, layout.positions[row],
                              rows, prompt_tokens, decodes ? s.generated : 0});
    const auto start = Clock::now();
    const PolicyCheck check{s.policies.method, layer, shape_.heads};
    if (s.policies.prefill || s.policies.selection) stage.memory->finish();  // they may read keys
    if (pass.kind == Pass::Kind::kPrefill && s.policies.prefill && rows > 1) {
      patterns[i] = s.policies.prefill->plan(views[i]);
      check.patterns(patterns[i], {layout.positions[row], rows});
      s.counters.policy_seconds += seconds_since(start);
    } else if (pass.kind == Pass::Kind::kDecode && s.policies.selection) {
      selections[i] = s.policies.selection->select(views[i]);
      check.selection(selections[i], sets);
      s.counters.policy_seconds += seconds_since(start);
    }
  }

  const auto heads = static_cast<std::size_t>(shape_.heads);
  std::vector<AttentionJob> jobs;
  for (std::size_t i = 0; i < n; ++i) {
    const Pass& pass = passes[i];
    Sequence& s = *pass.sequence;
    const auto& sets = s.cache.layer(layer);
    const int rows = static_cast<int>(pass.tokens.size());
    const std::size_t lists = selections[i].all() ? sets.size() : selections[i].slots.size();
    const auto heads_per_list = heads / lists;
    const PatternPass range{layout.positions[layout.first_row[i]], rows};
    for (std::size_t j = 0; j < lists; ++j) {
      AttentionJob job;
      job.keys = &sets[j * sets.size() / lists];
      job.q = q + layout.first_row[i] * layout.q_width + j * heads_per_list * head_dim;
      job.q_stride = layout.q_width;
      job.heads = static_cast<int>(heads_per_list);
      job.positions = layout.positions.data() + layout.first_row[i];
      job.rows = rows;
      job.out = attended + layout.first_row[i] * layout.q_width + j * heads_per_list * head_dim;
      job.out_stride = layout.q_width;
      job.lse = lse + layout.first_row[i] * heads + j * heads_per_list;
      job.lse_stride = heads;
      job.sliding_window = window;
      if (!selections[i].all()) job.slots = &selections[i].slots[j];
      if (!patterns[i].empty()) job.patterns = patterns[i].data() + j * heads_per_list;
      job.pass = range;
      jobs.push_back(job);
    }
    if (pass.kind == Pass::Kind::kDecode) {
      count_reads(s, layer, selections[i]);
    } else {
      const double dense = static_cast<double>(rows) * range.first_row + 0.5 * rows * (rows + 1.0);
      s.counters.prefill_pairs_dense += shape_.heads * dense;
      if (patterns[i].empty()) s.counters.prefill_pairs += shape_.heads * dense;
      for (const HeadPattern& p : patterns[i])
        s.counters.prefill_pairs += static_cast<double>(pattern_pairs(p, range));
    }
  }
  stage.backend.attend(scale_, jobs);
  for (std::size_t i = 0; i < n; ++i) {
    if (patterns[i].empty() && selections[i].all())
      stats[i].set_log_sum_exp(lse + layout.first_row[i] * heads);
    after_attention(layer, passes[i], stats[i], views[i]);
  }
}

void Engine::after_attention(int layer, const Pass& pass, AttentionStats& stats,
                             const LayerView& view) {
  Memory& memory = *stage_of(layer).memory;
  Sequence& s = *pass.sequence;
  const auto start = Clock::now();
  if (pass.kind == Pass::Kind::kDecode) {
    if (s.policies.eviction && pass.evict) {
      memory.finish();
      keep(s, layer, s.policies.eviction->after_decode(view), view.sets);
      s.counters.policy_seconds += seconds_since(start);
    }
    return;
  }
  if (pass.evict) count_columns(layer, pass, stats, view);
  if (!pass.prompt_end) return;
  // The sequence itself if it stands alone, else each follower, from what the trunk has cached.
  std::vector<Sequence*> takers = pass.followers;
  if (takers.empty()) takers.push_back(&s);
  memory.finish();
  const auto l = static_cast<std::size_t>(layer);
  for (Sequence* taker : takers) {
    const auto began = Clock::now();
    const KeepSets kept = taker->policies.eviction && pass.evict
                              ? taker->policies.eviction->after_prefill(view)
                              : KeepSets{};
    if (taker != &s) {
      taker->tails[l] = s.tails[l];
      taker->cache.layer(layer).assign(view.sets.begin(), view.sets.end());
    }
    keep(*taker, layer, kept, view.sets);
    if (taker->policies.selection) {
      memory.finish();
      const auto& left = taker->cache.layer(layer);
      AttentionStats own_stats = stats.over(left);
      LayerView own{view.layer, view.shape,         left,
                    own_stats,  view.dialogue,      view.first_row,
                    view.rows,  view.prompt_tokens, view.generated};
      taker->policies.selection->after_prefill(own);
    }
    if (taker->policies.placement.host) {
      auto& caches = taker->device_caches;
      caches.resize(static_cast<std::size_t>(shape_.layers));
      const Placement& p = taker->policies.placement;
      caches[l].assign(taker->cache.layer(layer).size(),
                       DeviceCache(p.cache_tokens, p.cache_block, p.rule));
    }
    if (taker->policies.eviction || taker->policies.selection) {
      taker->counters.policy_seconds += seconds_since(began);
    }
    if (taker->policies.eviction && !taker->policies.eviction->columns().empty()) {
      taker->counters.policy_seconds += s.columns[l].seconds;
    }
  }
  s.columns[l].seconds = 0;
  if (pass.followers.empty()) s.columns[l].by_rule.clear();  // its slots are others now
}

void Engine::fill(Sequence& sequence, std::span<const int> tokens, const DialogueView& dialogue,
                  std::uint64_t seed) {
  const auto n = static_cast<std::int32_t>(tokens.size());
  const auto head_dim = static_cast<std::size_t>(shape_.head_dim),
             width = head_dim * static_cast<std::size_t>(shape_.heads);
  const std::int32_t rows = std::clamp(sequence.tail_rows(), 1, n);
  Random random(seed);
  const auto draw = [&](std::vector<float>& x, std::size_t row) {
    stages_.front().backend.parallel_for(x.size() / row, [&](std::size_t r) {
      Random own = random;
      own.skip(r * row);
      for (std::size_t i = r * row; i < (r + 1) * row; ++i)
        x[i] = static_cast<float>(2 * own.uniform() - 1);
    });
    random.skip(x.size());
  };
  std::vector<float> block, queries(static_cast<std::size_t>(rows) * width);
  std::vector<std::int32_t> positions(static_cast<std::size_t>(rows));
  std::iota(positions.begin(), positions.end(), n - rows);
  sequence.tokens.assign(tokens.begin(), tokens.end());
  DialogueView view = dialogue;
  view.tokens = sequence.tokens;
  const Pass pass{.sequence = &sequence, .tokens = tokens, .prompt_end = true};
  for (int l = 0; l < shape_.layers; ++l) {
    Stage& stage = stage_of(l);
    auto& sets = sequence.cache.layer(l);
    for (KvSet& set : sets) {
      for (std::int32_t first = 0; first < n; first += kFilledAtOnce) {
        const int count = std::min(kFilledAtOnce, n - first);
        std::vector<std::int32_t> at(static_cast<std::size_t>(count));
        std::iota(at.begin(), at.end(), first);
        block.resize(at.size() * 2 * head_dim);  // a row's key and value, drawn in this order
        draw(block, 2 * head_dim);
        float* from = stage.k.get(block.size());
        stage.memory->copy_floats(block.data(), from, block.size());
        set.extend(at);
        const AppendJob job{&set,        first,           count,
                            from,        from + head_dim, set.layout().raw_keys ? from : nullptr,
                            2 * head_dim};
        stage.backend.append({&job, 1});
      }
    }
    draw(queries, width);
    stage.memory->copy_floats(queries.data(), stage.q.get(queries.size()), queries.size());
    QueryTail& tail = sequence.tails[static_cast<std::size_t>(l)];
    for (std::int32_t r = 0; r < rows; ++r)
      tail.push(queries.data() + static_cast<std::size_t>(r) * width, n - rows + r);
    AttentionStats stats(stage.backend, shape_, scale_,
                         model_.config().sliding_window[static_cast<std::size_t>(l)], sets,
                         {stage.q.data(), width, positions.data(), rows}, &tail,
                         &sequence.columns[static_cast<std::size_t>(l)], seed);
    after_attention(l, pass, stats, {l, shape_, sets, stats, view, n - rows, rows, n, 0});
  }
  sequence.prompt_tokens = n;
  sequence.next_position = sequence.policies.raw_keys() ? sequence.cache.layer(0)[0].size() : n;
}

/// Column masses add up chunk by chunk, and in a trunk turn by turn.
void Engine::count_columns(int layer, const Pass& pass, AttentionStats& stats,
                           const LayerView& view) const {
  std::vector<const Sequence*> takers(pass.followers.begin(), pass.followers.end());
  if (takers.empty()) takers.push_back(pass.sequence);
  for (const Sequence* taker : takers) {
    if (!taker->policies.eviction) continue;
    for (const ColumnRule& rule : taker->policies.eviction->columns()) {
      const ColumnMass& mass = stats.column_mass(rule);
      if (!pass.followers.empty() && mass.rows != view.first_row + view.rows) {
        throw runtime_error(
            "layer {}: found the column masses of {} rows, expected {}: a trunk must know its "
            "followers from its first pass",
            layer, mass.rows, view.first_row + view.rows);
      }
    }
  }
}

void Engine::keep(Sequence& sequence, int layer, const KeepSets& kept,
                  std::span<const KvSet> from) {
  auto& sets = sequence.cache.layer(layer);
  const PolicyCheck check{sequence.policies.method, layer, shape_.heads};
  check.keep(kept, from);
  if (!kept.keep_all()) {
    const std::shared_ptr<KvPool>& pool = sequence.cache.pool(layer);
    std::vector<KvSet> next;
    for (std::size_t i = 0; i < kept.slots.size(); ++i) {
      const KvSet& source = from[i * from.size() / kept.slots.size()];
      if (kept.slots.size() == sets.size() &&
          sets[i].layout().raw_keys == pool->layout().raw_keys) {
        next.push_back(sets[i]);  // shares the unchanged prefix
        next.back().keep(kept.slots[i]);
      } else {
        next.push_back(source.gathered(kept.slots[i], pool));
      }
    }
    sets = std::move(next);
  }
  if (sequence.policies.raw_keys()) {
    check.shifted(sets, sequence.cache.layer(0)[0].size());
    for (KvSet& set : sets) shift_positions(stage_of(layer), set);
  }
}

void Engine::shift_positions(Stage& stage, KvSet& set) {
  int first = 0;  // from here on, no slot is at its position
  while (first < set.size() && set.position(first) == first) ++first;
  const auto count = static_cast<std::size_t>(set.size() - first),
             head_dim = static_cast<std::size_t>(shape_.head_dim);
  if (count == 0) return;
  std::vector<std::int32_t> positions(count);
  std::iota(positions.begin(), positions.end(), first);
  float* keys = stage.turned.get(2 * count * head_dim);
  float *cos = keys + count * head_dim, *sin = cos + count * head_dim / 2;
  turn_to(stage, positions, cos, sin);
  stage.backend.read_raw_keys(set, first, static_cast<int>(count), keys);
  stage.backend.rotate(keys, head_dim, count, 1, shape_.head_dim, cos, sin);
  set.close_gaps(first);
  const AppendJob job{&set, first, static_cast<int>(count), keys, nullptr, nullptr, head_dim};
  stage.backend.append({&job, 1});
}

void Engine::count_reads(Sequence& s, int layer, const Selection& selection) const {
  const auto& sets = s.cache.layer(layer);
  const auto l = static_cast<std::size_t>(layer);
  const std::size_t token_bytes = 2 * sets[0].layout().row_bytes();
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const std::size_t per_set = selection.all() ? 0 : selection.slots.size() / sets.size();
    const std::span lists = std::span(selection.slots).subspan(i * per_set, per_set);
    s.counters.attended_tokens += selection.all() ? static_cast<double>(sets[i].size())
                                                  : static_cast<double>(union_size(lists));
    ++s.counters.attentions;
    if (!s.policies.placement.host) continue;
    DeviceCache& cache = s.device_caches[l][i];
    s.counters.traffic.to_host_bytes += static_cast<std::int64_t>(token_bytes);  // the new token
    if (selection.all()) {
      s.counters.traffic += cache.read(all_slots(sets[i]), static_cast<std::int64_t>(token_bytes));
    }
    for (const auto& list : lists) {
      s.counters.traffic += cache.read(list, static_cast<std::int64_t>(token_bytes));
    }
  }
}

}  // namespace turnbench
