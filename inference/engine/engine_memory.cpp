#include "inference/engine/engine_memory.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "common/error.h"

namespace turnbench {

std::size_t EngineMemory::offload_bytes(std::span<const Pass> passes) const {
  std::size_t out = 0;
  for (const Pass& pass : passes) {
    const auto tokens =
        static_cast<std::int32_t>(cached_tokens(*pass.sequence) + std::ssize(pass.tokens));
    if (pass.kind == Pass::Kind::kPrefill && pass.sequence->policies.placement.host) {
      const PageLayout& layout = pass.sequence->at(0).kv.pool()->layout();
      // One layer at a time, or all layers until the scoring passes have ended.
      const auto prompt = static_cast<int>(pass.sequence->tokens.size() + pass.tokens.size());
      const bool scored = pass.prompt_end && pass.sequence->policies.has_scoring_passes(prompt);
      out += kv_bytes_of(layout, scored ? core_.shape.layers : 1, core_.shape.kv_heads, tokens);
    }
    if (!pass.prompt_end) continue;
    const auto needs = [&](const Sequence& s) {
      return answer_needs(s.policies, core_.shape, s.at(0).kv.pool()->layout(),
                          core_.shape.kv_heads, tokens,
                          static_cast<int>(pass.sequence->tokens.size() + pass.tokens.size()));
    };
    if (pass.forks.empty()) {
      const AnswerNeeds own = needs(*pass.sequence);
      out += own.working_sets + own.index;
      continue;
    }
    std::map<bool, std::size_t> copies;  // with keys before RoPE and without
    for (const Sequence* fork : pass.forks) {
      const AnswerNeeds own = needs(*fork);
      const PageLayout& layout = fork->at(0).kv.pool()->layout();
      out += own.working_sets + own.index;
      if (!core_.stages.front().memory->is_host() || fork->policies.eviction) continue;
      std::size_t& most = copies[layout.pre_rope_keys];
      most =
          std::max(most, kv_bytes_of(layout, own.offloaded_layers, core_.shape.kv_heads, tokens));
    }
    for (const auto& [raw, bytes] : copies) out += bytes;
  }
  return out;
}

std::size_t EngineMemory::new_group_bytes(const Pass& pass) const {
  std::size_t out = 0;
  const auto add = [&](const Sequence& to) {
    if (to.policies.group_codec() == nullptr) return;
    const Sequence& from = *pass.sequence;
    const PageLayout plain = prefill_layout(to.at(0).kv.pool()->layout(), to.policies);
    const std::int64_t tokens = longest_set(from.sets(0)) + std::ssize(pass.tokens);
    const int sets = static_cast<int>(from.sets(0).size());
    out += kv_bytes_of(plain, core_.shape.layers, sets, newest_tokens(to.policies, tokens));
    out += &to == &from  // encoded pages are counted with those of other codecs
               ? kv_bytes_of(plain, core_.shape.layers, sets, std::ssize(pass.tokens))
               : kv_bytes_of(stored_layout(plain, to.policies), core_.shape.layers, sets, tokens);
  };
  add(*pass.sequence);
  if (!pass.prompt_end) return out;
  for (const Sequence* fork : pass.forks) add(*fork);
  return out;
}

std::size_t EngineMemory::new_kv_bytes(const PassSize& size, std::span<const Pass> passes) const {
  const Stage& any = core_.stages.front();
  std::size_t out = 0;
  std::int64_t rows = size.rows;  // of sequences without a codec
  for (const Pass& pass : passes) {
    const Sequence& s = *pass.sequence;
    out += new_group_bytes(pass);
    if (!s.policies.codec) continue;
    rows -= std::ssize(pass.tokens);
    const PageLayout& known = s.at(0).kv.pool()->layout();
    const PageLayout layout = stored_layout(known, s.policies);
    const auto& sets = s.sets(0);
    const int count = static_cast<int>(sets.size());
    // Tokens of a history without the codec are encoded as well.
    const std::int64_t of_history = known.is_encoded() ? 0 : longest_set(sets),
                       fresh = std::ssize(pass.tokens);
    const std::int64_t longest = cached_tokens(s);
    const auto copies_for = [&](const Sequence& of) {
      return decoded_bytes_of(of.policies, core_.shape, layout, count, longest + fresh,
                              pass.prompt_end);
    };
    std::size_t copies = copies_for(s);
    for (const Sequence* fork : pass.forks) copies = std::max(copies, copies_for(*fork));
    out += kv_bytes_of(layout, core_.shape.layers, count, of_history + fresh) + copies;
  }
  return out + kv_bytes_of(any.storage_of(size.pre_rope_keys, {})->device->layout(),
                           core_.shape.layers, core_.shape.kv_heads, rows);
}

void EngineMemory::check(PassSize size, std::span<const Pass> passes, std::int64_t at_once) const {
  if (core_.options.memory_limit == 0) return;
  for (const Pass& pass : passes) {
    const std::int64_t context = cached_tokens(*pass.sequence) + std::ssize(pass.tokens);
    size.total_context += context;
    size.longest_context = std::max(size.longest_context, context);
  }
  PassSize active = size;  // rows with activations at the same time
  active.math = core_.math;
  std::size_t waiting = 0;
  if (at_once > 0 && at_once < size.rows) {
    active.rows = at_once;
    waiting = static_cast<std::size_t>((size.rows - at_once) *
                                       (core_.model.config().hidden + core_.shape.head_dim)) *
              sizeof(float) * core_.stages.size();
  }
  const Stage& any = core_.stages.front();
  const std::size_t need =
      core_.model.weight_bytes() + kv_bytes() + (any.memory->is_host() ? host_kv_bytes() : 0) +
      new_kv_bytes(size, passes) +
      workspace_bytes_of(core_.model.config(), active,
                         any.backend.scratch_bytes(core_.model.config(), active),
                         core_.stages.size()) +
      std::accumulate(retrieval_.resource_bytes().begin(), retrieval_.resource_bytes().end(),
                      std::size_t{0},
                      [](std::size_t sum, const auto& r) { return sum + r.second; }) +
      waiting + offload_bytes(passes);
  if (need > core_.options.memory_limit) {
    throw memory_error(
        "needs {} MiB for {} rows on {} cached tokens, more than the limit of {} MiB",
        (need + (1 << 20) - 1) >> 20, size.rows, size.longest_context,
        core_.options.memory_limit >> 20);
  }
}

std::size_t EngineMemory::kv_bytes() const {
  std::size_t total = 0;
  for (const Stage& s : core_.stages)
    s.for_each_storage([&](const KvStorage& kv) { total += kv.device->live_bytes(); });
  for (const auto& [head_dim, pool] : retrieval_.pools()) total += pool->live_bytes();
  return total;
}

std::size_t EngineMemory::host_kv_bytes() const {
  std::size_t total = 0;
  for (const Stage& s : core_.stages)
    s.for_each_storage([&](const KvStorage& kv) { total += kv.host->live_bytes(); });
  return total;
}

std::size_t EngineMemory::peak_kv_bytes() const {
  std::size_t total = 0;
  for (const Stage& s : core_.stages)
    s.for_each_storage([&](const KvStorage& kv) { total += kv.device->peak_bytes(); });
  for (const auto& [head_dim, pool] : retrieval_.pools()) total += pool->peak_bytes();
  return total;
}

void EngineMemory::reset_peak() {
  for (const Stage& s : core_.stages)
    s.for_each_storage([](const KvStorage& kv) { kv.device->reset_peak(); });
  for (const auto& [head_dim, pool] : retrieval_.pools()) pool->reset_peak();
}

std::size_t EngineMemory::workspace_bytes() const {
  std::size_t total = core_.staging.bytes();
  for (const Stage& s : core_.stages) {
    total += s.backend.workspace_bytes();
    for (const auto& [raw, pool] : s.decoded_pools) total += pool->held_bytes();
    Stage::for_each_scratch(s, [&](const auto& array) { total += array.bytes(); });
  }
  return total;
}

void EngineMemory::release_workspace() {
  core_.staging.release();
  for (Stage& s : core_.stages) {
    s.memory->synchronize();
    s.backend.release_workspace();
    s.decoded_pools.clear();
    Stage::for_each_scratch(s, [](auto& array) { array.release(); });
  }
}

}  // namespace turnbench
