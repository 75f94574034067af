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
              *pre_rope_k = layout.pre_rope_keys ? stage.pre_rope_k.data() : nullptr;
  const auto head_dim = static_cast<std::size_t>(shape_.head_dim);
  std::vector<AppendJob> jobs;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    auto& sets = passes[i].sequence->cache.layer(layer);
    const std::size_t first = layout.first_row[i], rows = passes[i].tokens.size();
    for (std::size_t s = 0; s < sets.size(); ++s) {
      const std::size_t kv_head = s * static_cast<std::size_t>(shape_.kv_heads) / sets.size();
      const std::size_t at = first * layout.kv_width + kv_head * head_dim;
      jobs.push_back({&sets[s], sets[s].size(), static_cast<int>(rows), k + at, v + at,
                      pre_rope_k == nullptr ? nullptr : pre_rope_k + at, layout.kv_width});
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

Engine::LayerDecisions Engine::ask_policies(int layer, std::span<const Pass> passes,
                                            const Layout& layout) {
  Stage& stage = stage_of(layer);
  const auto l = static_cast<std::size_t>(layer);
  LayerDecisions out(passes.size());
  for (std::size_t i = 0; i < passes.size(); ++i) {
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
    out.stats.emplace_back(stage.backend, shape_, scale_, model_.config().sliding_window[l], sets,
                           QueryRows{stage.q.data() + row * layout.q_width, layout.q_width,
                                     layout.positions.data() + row, rows},
                           &s.tails[l], decodes ? nullptr : &s.columns[l], noise_seed);
    const int prompt_tokens = decodes ? s.prompt_tokens : static_cast<int>(s.tokens.size());
    out.views.push_back(LayerView{layer, shape_, sets, out.stats.back(), dialogue,
                                  layout.positions[row], rows, prompt_tokens,
                                  decodes ? s.generated : 0});
    const auto start = Clock::now();
    const PolicyCheck check{s.policies.method, layer, shape_.heads};
    if (s.policies.prefill || s.policies.selection) stage.memory->finish();  // they may read keys
    if (!decodes && s.policies.prefill && rows > 1) {
      out.patterns[i] = s.policies.prefill->plan(out.views[i]);
      check.patterns(out.patterns[i], {layout.positions[row], rows});
      s.counters.policy_seconds += seconds_since(start);
    } else if (decodes && s.policies.selection) {
      out.selections[i] = s.policies.selection->select(out.views[i]);
      check.selection(out.selections[i], sets);
      s.counters.policy_seconds += seconds_since(start);
    }
  }
  return out;
}

std::vector<AttentionJob> Engine::attention_jobs(int layer, std::span<const Pass> passes,
                                                 const Layout& layout,
                                                 const LayerDecisions& decisions) {
  Stage& stage = stage_of(layer);
  const auto heads = static_cast<std::size_t>(shape_.heads),
             head_dim = static_cast<std::size_t>(shape_.head_dim);
  std::vector<AttentionJob> jobs;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const Selection& selection = decisions.selections[i];
    const auto& patterns = decisions.patterns[i];
    const auto& sets = passes[i].sequence->cache.layer(layer);
    const std::size_t lists = selection.all() ? sets.size() : selection.slots.size();
    const std::size_t heads_per_list = heads / lists, row = layout.first_row[i];
    for (std::size_t j = 0; j < lists; ++j) {
      const std::size_t head = j * heads_per_list;
      const std::size_t at = row * layout.q_width + head * head_dim;
      AttentionJob& job = jobs.emplace_back();
      job.keys = &sets[j * sets.size() / lists];
      job.q = stage.q.data() + at;
      job.q_stride = layout.q_width;
      job.heads = static_cast<int>(heads_per_list);
      job.positions = layout.positions.data() + row;
      job.rows = static_cast<int>(passes[i].tokens.size());
      job.out = stage.attended.data() + at;
      job.out_stride = layout.q_width;
      job.lse = stage.lse.data() + row * heads + head;
      job.lse_stride = heads;
      job.sliding_window = model_.config().sliding_window[static_cast<std::size_t>(layer)];
      if (!selection.all()) job.slots = &selection.slots[j];
      if (!patterns.empty()) job.patterns = patterns.data() + head;
      job.pass = {layout.positions[row], job.rows};
    }
  }
  return jobs;
}

/// What a layer's attention computes of a pass, and reads.
void Engine::count_attention(int layer, const Pass& pass, std::int32_t first_position,
                             const Selection& selection,
                             std::span<const HeadPattern> patterns) const {
  Sequence& s = *pass.sequence;
  if (pass.kind == Pass::Kind::kDecode) {
    count_reads(s, layer, selection);
    return;
  }
  const PatternPass range{first_position, static_cast<int>(pass.tokens.size())};
  const double dense =
      static_cast<double>(range.rows) * range.first_row + 0.5 * range.rows * (range.rows + 1.0);
  s.counters.prefill_pairs_dense += shape_.heads * dense;
  if (patterns.empty()) s.counters.prefill_pairs += shape_.heads * dense;
  for (const HeadPattern& p : patterns)
    s.counters.prefill_pairs += static_cast<double>(pattern_pairs(p, range));
}

void Engine::attention_layer(int layer, std::span<const Pass> passes, const Layout& layout) {
  Stage& stage = stage_of(layer);
  LayerDecisions decisions = ask_policies(layer, passes, layout);
  const std::vector<AttentionJob> jobs = attention_jobs(layer, passes, layout, decisions);
  for (std::size_t i = 0; i < passes.size(); ++i) {
    count_attention(layer, passes[i], layout.positions[layout.first_row[i]],
                    decisions.selections[i], decisions.patterns[i]);
  }
  stage.backend.attend(scale_, jobs);
  const auto heads = static_cast<std::size_t>(shape_.heads);
  for (std::size_t i = 0; i < passes.size(); ++i) {
    AttentionStats& stats = decisions.stats[i];
    if (decisions.patterns[i].empty() && decisions.selections[i].all())
      stats.set_log_sum_exp(stage.lse.data() + layout.first_row[i] * heads);
    after_attention(layer, passes[i], stats, decisions.views[i]);
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
  // The sequence itself if it stands alone, else each fork, from what the shared prefix has cached.
  std::vector<Sequence*> forks = pass.forks;
  if (forks.empty()) forks.push_back(&s);
  memory.finish();
  const auto l = static_cast<std::size_t>(layer);
  for (Sequence* fork : forks) {
    const auto began = Clock::now();
    const KeepSets kept = fork->policies.eviction && pass.evict
                              ? fork->policies.eviction->after_prefill(view)
                              : KeepSets{};
    if (fork != &s) {
      fork->tails[l] = s.tails[l];
      fork->cache.layer(layer).assign(view.sets.begin(), view.sets.end());
    }
    keep(*fork, layer, kept, view.sets);
    if (fork->policies.selection) {
      memory.finish();
      const auto& left = fork->cache.layer(layer);
      AttentionStats own_stats = stats.over(left);
      LayerView own{view.layer, view.shape,         left,
                    own_stats,  view.dialogue,      view.first_row,
                    view.rows,  view.prompt_tokens, view.generated};
      fork->policies.selection->after_prefill(own);
    }
    if (fork->policies.placement.host) {
      auto& caches = fork->device_caches;
      caches.resize(static_cast<std::size_t>(shape_.layers));
      const Placement& p = fork->policies.placement;
      caches[l].assign(fork->cache.layer(layer).size(),
                       DeviceCache(p.cache_tokens, p.cache_block, p.rule));
    }
    if (fork->policies.eviction || fork->policies.selection) {
      fork->counters.policy_seconds += seconds_since(began);
    }
    if (fork->policies.eviction && !fork->policies.eviction->columns().empty()) {
      fork->counters.policy_seconds += s.columns[l].seconds;
    }
  }
  s.columns[l].seconds = 0;
  if (pass.forks.empty()) s.columns[l].by_rule.clear();  // its slots are others now
}

void Engine::fill_random_kv(Sequence& sequence, std::span<const int> tokens,
                            const DialogueView& dialogue, std::uint64_t seed) {
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
    for (KvHeadCache& set : sets) {
      for (std::int32_t first = 0; first < n; first += kFilledAtOnce) {
        const int count = std::min(kFilledAtOnce, n - first);
        std::vector<std::int32_t> at(static_cast<std::size_t>(count));
        std::iota(at.begin(), at.end(), first);
        block.resize(at.size() * 2 * head_dim);  // a row's key and value, drawn in this order
        draw(block, 2 * head_dim);
        float* from = stage.k.get(block.size());
        stage.memory->copy_floats(block.data(), from, block.size());
        set.extend(at);
        const AppendJob job{
            &set,        first,           count,
            from,        from + head_dim, set.layout().pre_rope_keys ? from : nullptr,
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
  sequence.next_position =
      sequence.policies.pre_rope_keys() ? sequence.cache.layer(0)[0].size() : n;
}

/// Column masses add up chunk by chunk, and in a shared prefix turn by turn.
void Engine::count_columns(int layer, const Pass& pass, AttentionStats& stats,
                           const LayerView& view) const {
  std::vector<const Sequence*> forks(pass.forks.begin(), pass.forks.end());
  if (forks.empty()) forks.push_back(pass.sequence);
  for (const Sequence* fork : forks) {
    if (!fork->policies.eviction) continue;
    for (const ColumnRule& rule : fork->policies.eviction->columns()) {
      const ColumnMass& mass = stats.column_mass(rule);
      if (!pass.forks.empty() && mass.rows != view.first_row + view.rows) {
        throw runtime_error(
            "layer {}: found the column masses of {} rows, expected {}: a shared prefix must know "
            "its forks from its first pass",
            layer, mass.rows, view.first_row + view.rows);
      }
    }
  }
}

void Engine::keep(Sequence& sequence, int layer, const KeepSets& kept,
                  std::span<const KvHeadCache> from) {
  auto& sets = sequence.cache.layer(layer);
  const PolicyCheck check{sequence.policies.method, layer, shape_.heads};
  check.keep(kept, from);
  if (!kept.keep_all()) {
    const std::shared_ptr<KvPool>& pool = sequence.cache.pool(layer);
    std::vector<KvHeadCache> next;
    for (std::size_t i = 0; i < kept.slots.size(); ++i) {
      const KvHeadCache& source = from[i * from.size() / kept.slots.size()];
      if (kept.slots.size() == sets.size() &&
          sets[i].layout().pre_rope_keys == pool->layout().pre_rope_keys) {
        next.push_back(sets[i]);  // shares the unchanged prefix
        next.back().keep(kept.slots[i]);
      } else {
        next.push_back(source.gathered(kept.slots[i], pool));
      }
    }
    sets = std::move(next);
  }
  if (sequence.policies.pre_rope_keys()) {
    check.shifted(sets, sequence.cache.layer(0)[0].size());
    for (KvHeadCache& set : sets) shift_positions(stage_of(layer), set);
  }
}

void Engine::shift_positions(Stage& stage, KvHeadCache& set) {
  int first = 0;  // from here on, no slot is at its position
  while (first < set.size() && set.position(first) == first) ++first;
  const auto count = static_cast<std::size_t>(set.size() - first),
             head_dim = static_cast<std::size_t>(shape_.head_dim);
  if (count == 0) return;
  std::vector<std::int32_t> positions(count);
  std::iota(positions.begin(), positions.end(), first);
  float* keys = stage.rotated_keys.get(2 * count * head_dim);
  float *cos = keys + count * head_dim, *sin = cos + count * head_dim / 2;
  compute_rope(stage, positions, cos, sin);
  stage.backend.read_pre_rope_keys(set, first, static_cast<int>(count), keys);
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
      s.counters.traffic +=
          cache.read(all_slots(sets[i].size()), static_cast<std::int64_t>(token_bytes));
    }
    for (const auto& list : lists) {
      s.counters.traffic += cache.read(list, static_cast<std::int64_t>(token_bytes));
    }
  }
}

}  // namespace turnbench
