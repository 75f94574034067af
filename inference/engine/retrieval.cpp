#include "inference/engine/retrieval.h"

#include <array>

#include "common/clock.h"

namespace turnbench {

RetrieverPass Retrieval::retriever_pass(const Pass& pass) {
  Stage& stage = core_.stages.front();
  return {.config = core_.model.config(),
          .weight_dtype = core_.model.dtype(),
          .key_dtype = core_.options.kv_dtype,
          .tokens = pass.sequence->tokens,
          .rows = static_cast<int>(pass.tokens.size()),
          .backend = stage.backend,
          .embedding = core_.model.embedding(),
          .resources = resources_,
          .scratch = stage.retriever_scratch,
          .key_pool = [this](int head_dim) { return retriever_pool(head_dim); }};
}

const std::shared_ptr<KvPool>& Retrieval::retriever_pool(int head_dim) {
  std::shared_ptr<KvPool>& pool = retriever_pools_[head_dim];
  if (pool == nullptr) {
    pool = std::make_shared<KvPool>(PageLayout{head_dim, core_.options.kv_dtype, false},
                                    core_.stages.front().memory);
    pool->set_limit(core_.options.kv_limit);
  }
  return pool;
}

std::vector<Retriever*> Retrieval::retrievers_of(const Pass& pass) {
  std::vector<Retriever*> out;
  if (pass.sequence->retriever) out.push_back(pass.sequence->retriever.get());
  if (pass.kind == Pass::Kind::kDecode) return out;  // the rest is for forks of prompts
  for (const auto& retriever : pass.sequence->fork_retrievers) out.push_back(retriever.get());
  return out;
}

void Retrieval::count_resources(std::span<const Pass> passes) {
  const auto count = [&](const Sequence& s) {
    const auto* retrieval = capability<StepRetrieval>(s.policies.selection.get());
    if (retrieval == nullptr) return;
    const MethodResource resource = retrieval->resource(core_.model.config(), core_.model.dtype());
    if (!resource.key.empty()) resource_bytes_[resource.key] = resource.bytes;
  };
  for (const Pass& pass : passes) {
    if (pass.kind == Pass::Kind::kDecode) continue;  // already counted with its prompt
    count(*pass.sequence);
    for (const Sequence* fork : pass.forks) count(*fork);
  }
}

void Retrieval::begin_retrievers(std::span<const Pass> passes, const ForwardBatch& batch) {
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const Pass& pass = passes[i];
    Sequence& s = *pass.sequence;
    for (const Sequence* fork : pass.forks) {
      if (fork->retriever && s.find_retriever(fork->retriever->key()) == nullptr)
        s.fork_retrievers.push_back(
            capability<StepRetrieval>(fork->policies.selection.get())->make_retriever());
    }
    const std::vector<Retriever*> retrievers = retrievers_of(pass);
    if (retrievers.empty()) continue;
    const auto zone = core_.zone(Phase::kSelect, 0);
    const auto start = Clock::now();
    const RetrieverPass view = retriever_pass(pass);
    for (Retriever* retriever : retrievers) retriever->begin_pass(view);
    if (pass.kind == Pass::Kind::kDecode) {
      capability<StepRetrieval>(s.policies.selection.get())
          ->begin_step({view, *s.retriever, batch.positions[batch.first_row[i]], s.prompt_tokens});
    }
    s.counters.policy_seconds += seconds_since(start);
  }
}

void Retrieval::show_hidden(int layer, std::span<const Pass> passes, const ForwardBatch& batch) {
  for (std::size_t i = 0; i < passes.size(); ++i) {
    for (Retriever* retriever : retrievers_of(passes[i])) {
      if (!retriever->reads_layer(core_.model.config(), layer)) continue;
      const auto zone = core_.zone(Phase::kSelect, layer);
      Stage &from = core_.stage_of(layer), &to = core_.stages.front();
      const std::int64_t rows = std::ssize(passes[i].tokens);
      MatrixView<const float> hidden = from.hidden.view.rows_at(batch.first_row[i], rows);
      if (&from != &to) {
        to.shown.make_room(rows, batch.hidden);
        from.memory->synchronize();
        to.memory->copy(std::array{copy_of(hidden.data, to.shown.data(), rows * batch.hidden)});
        to.memory->synchronize();
        hidden = to.shown.view;
      }
      const auto start = Clock::now();
      retriever->enter_layer(retriever_pass(passes[i]), layer, hidden);
      passes[i].sequence->counters.policy_seconds += seconds_since(start);
    }
  }
}

void Retrieval::give_retriever(const Sequence& from, Sequence& fork) {
  if (!fork.retriever) return;
  if (const Retriever* known = from.find_retriever(fork.retriever->key()))
    fork.retriever = known->clone();
}

}  // namespace turnbench
