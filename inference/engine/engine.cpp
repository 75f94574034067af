#include "inference/engine/engine.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/error.h"
#include "inference/policy/policy_checks.h"

namespace turnbench {

Engine::Engine(const Model& model, Backend& backend, Options options)
    : Engine(model, std::array{&backend}, options) {}

Engine::Engine(const Model& model, std::span<Backend* const> backends, Options options)
    : core_(model, backends, options) {}

Sequence Engine::make_sequence(Policies policies, int tail_rows, bool pre_rope_keys) const {
  const bool raw = pre_rope_keys || policies.pre_rope_keys();
  const EncodedBytes encoded = policies.prefill_bytes(core_.shape.head_dim);
  check_traits(policies);
  check_codec(policies);
  std::vector<std::shared_ptr<const KvStorage>> storage;
  for (int l = 0; l < core_.shape.layers; ++l) {
    const Stage& stage = core_.stages[core_.model.stages().stage_of(l)];
    check_codec_memory(policies, !stage.memory->is_host());
    storage.push_back(stage.storage_of(raw, encoded));
  }
  return Sequence(core_.shape, std::move(policies), storage, tail_rows);
}

std::vector<std::vector<float>> Engine::forward(std::span<const Pass> passes) {
  ForwardBatch batch = begin(passes);
  begin_steps(passes, batch);
  const Stages& stages = core_.model.stages();
  for (std::size_t s = 0; s < stages.count(); ++s) {
    decoder_.make_room(core_.stages[s], batch);
    if (s == 0) {
      decoder_.embed(passes, batch);
    } else {
      decoder_.copy_to_next_stage(core_.stages[s - 1], core_.stages[s], batch);
    }
    const int first = stages.first_layer(s), last = stages.first_layer(s + 1);
    decoder_.run_replayable(core_.stages[s], batch, first,
                            [&] { decoder_.qkv_rope(first, batch); });
    for (int l = first; l < last; ++l) {
      retrieval_.show_hidden(l, passes, batch);
      transfers_.append_keys(l, passes, batch);
      attention_.run(l, passes, batch);
      decoder_.run_replayable(core_.stages[s], batch, l + 1, [&] {
        decoder_.output_and_ffn(l, batch);
        if (l + 1 < last) decoder_.qkv_rope(l + 1, batch);
      });
    }
  }
  end(passes);
  std::vector<std::vector<float>> logits = decoder_.read_logits(passes, batch);
  for (const Pass& pass : passes) evict_by_scores(pass);
  return logits;
}

ForwardBatch Engine::begin(std::span<const Pass> passes, std::int64_t at_once) {
  const ModelConfig& c = core_.model.config();
  ForwardBatch batch;
  batch.hidden = c.hidden;
  batch.q_width = c.heads * c.head_dim;
  batch.kv_width = c.kv_heads * c.head_dim;
  batch.ffn = c.ffn;
  PassSize size{.sequences = std::ssize(passes)};
  for (const Pass& pass : passes) {
    batch.first_row.push_back(batch.rows);
    for (std::size_t t = 0; t < pass.tokens.size(); ++t) {
      const int token = pass.tokens[t];
      if (token < 0 || token >= c.vocab) {
        throw input_error("token {} of the input: found id {}, expected 0 to {}", t, token,
                          c.vocab - 1);
      }
      batch.positions.push_back(pass.sequence->next_position + static_cast<std::int32_t>(t));
    }
    check_policies(pass);
    batch.rows += std::ssize(pass.tokens);
    batch.add_logit_rows(pass.all_logits ? std::ssize(pass.tokens) : 1);
    batch.pre_rope_keys |= pass.sequence->stores_pre_rope_keys();
    batch.decodes &= pass.kind == Pass::Kind::kDecode;
  }
  batch.block = std::min(batch.rows, kLinearBlockRows);
  const Pass& only = passes.front();
  if (passes.size() == 1 && only.all_logits && only.observer != nullptr &&
      only.observer->reads_residuals())
    batch.residuals = only.observer;
  size.rows = batch.rows;
  size.pre_rope_keys = batch.pre_rope_keys;
  retrieval_.count_resources(passes);
  memory_.check(size, passes, at_once);
  for (const Pass& pass : passes) {  // no errors for invalid input from here on
    if (pass.kind == Pass::Kind::kDecode) ++pass.sequence->generated;
    transfers_.encode_history(*pass.sequence);
    transfers_.begin_ledgers(pass);
    pass.sequence->tokens.insert(pass.sequence->tokens.end(), pass.tokens.begin(),
                                 pass.tokens.end());
    batch.dialogues.push_back(pass.dialogue != nullptr ? *pass.dialogue : DialogueView{});
    batch.dialogues.back().tokens = pass.sequence->tokens;
  }
  return batch;
}

void Engine::check_policies(const Pass& pass) {
  check_codec(pass.sequence->policies);
  for (const Sequence* fork : pass.forks) {
    const auto bytes = [](const Sequence& s) {
      return s.policies.prefill_bytes(s.shape().head_dim);
    };
    check_codec(fork->policies);
    if (bytes(*fork) == bytes(*pass.sequence)) continue;
    throw runtime_error("{}: found a fork of a prefill with other encoded rows, expected its own",
                        fork->policies.method);
  }
  if (!pass.evict) return;
  const bool decodes = pass.kind == Pass::Kind::kDecode;
  if (!decodes && !pass.prompt_end) return;
  check_eviction(pass.sequence->policies, decodes);
  for (const Sequence* fork : pass.forks) check_eviction(fork->policies, decodes);
}

void Engine::begin_steps(std::span<const Pass> passes, ForwardBatch& batch) {
  transfers_.offload_during_decode(passes);
  retrieval_.begin_retrievers(passes, batch);
  transfers_.fetch_ahead(-1, passes, batch);
}

void Engine::end(std::span<const Pass> passes) {
  for (const Pass& pass : passes) {
    Sequence& s = *pass.sequence;
    for (LayerState& layer : s.layers) layer.kv.settle_pinned();  // waits for rows in transfer
    const bool shifted =
        s.policies.shifts_positions() && (pass.kind == Pass::Kind::kDecode || pass.prompt_end);
    s.next_position = shifted ? s.sets(0)[0].size()
                              : s.next_position + static_cast<std::int32_t>(pass.tokens.size());
    s.answered = pass.kind == Pass::Kind::kDecode;
    if (!pass.prompt_end) continue;
    s.prompt_tokens = static_cast<int>(s.tokens.size());
    s.generated = 0;
    for (Sequence* f : pass.forks) {
      if (s.policies.selects_in_prefill()) f->policies.selection = s.policies.selection->clone();
      retrieval_.give_retriever(s, *f);
      f->tokens = s.tokens;
      f->next_position = f->policies.shifts_positions() ? f->sets(0)[0].size() : s.next_position;
      f->prompt_tokens = s.prompt_tokens;
      f->generated = 0;
      f->answered = false;
      f->counters.prefill_pairs = s.counters.prefill_pairs;
      f->counters.prefill_pairs_dense = s.counters.prefill_pairs_dense;
    }
  }
}

LinkTraffic Engine::link_traffic() const {
  LinkTraffic out;
  for (const Stage& s : core_.stages) out += s.link->traffic();
  return out;
}

}  // namespace turnbench
