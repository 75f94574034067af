// The part of the engine that takes retrievers along: models beside the model, of methods that
// choose tokens before a step's first layer.

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "common/clock.h"
#include "inference/engine/engine.h"

namespace turnbench {

RetrieverPass Engine::retriever_pass(const Pass& pass) {
  Stage& stage = stages_.front();
  return {.config = model_.config(),
          .weight_dtype = model_.dtype(),
          .key_dtype = options_.kv_dtype,
          .tokens = pass.sequence->tokens,
          .rows = static_cast<int>(pass.tokens.size()),
          .backend = stage.backend,
          .embedding = model_.embedding(),
          .resources = resources_,
          .scratch = stage.selection_scratch,
          .key_pool = [this](int head_dim) { return retriever_pool(head_dim); }};
}

const std::shared_ptr<KvPool>& Engine::retriever_pool(int head_dim) {
  std::shared_ptr<KvPool>& pool = retriever_pools_[head_dim];
  if (pool == nullptr) {
    pool = std::make_shared<KvPool>(PageLayout{head_dim, options_.kv_dtype, false},
                                    stages_.front().memory);
    pool->set_limit(options_.kv_limit);
  }
  return pool;
}

std::vector<Retriever*> Engine::retrievers_of(const Pass& pass) {
  std::vector<Retriever*> out;
  if (pass.sequence->retriever) out.push_back(pass.sequence->retriever.get());
  if (pass.kind == Pass::Kind::kDecode) return out;  // what forks of prompts need
  for (const auto& retriever : pass.sequence->fork_retrievers) out.push_back(retriever.get());
  return out;
}

void Engine::count_resources(std::span<const Pass> passes) {
  const auto count = [&](const Sequence& s) {
    const auto* retrieval = capability<StepRetrieval>(s.policies.selection.get());
    if (retrieval == nullptr) return;
    const MethodResource resource = retrieval->resource(model_.config(), model_.dtype());
    if (!resource.key.empty()) resource_bytes_[resource.key] = resource.bytes;
  };
  for (const Pass& pass : passes) {
    if (pass.kind == Pass::Kind::kDecode) continue;  // known since its prompt
    count(*pass.sequence);
    for (const Sequence* fork : pass.forks) count(*fork);
  }
}

void Engine::begin_retrievers(std::span<const Pass> passes, const Layout& layout) {
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
    const auto start = Clock::now();
    const RetrieverPass view = retriever_pass(pass);
    for (Retriever* retriever : retrievers) retriever->begin_pass(view);
    if (pass.kind == Pass::Kind::kDecode) {
      capability<StepRetrieval>(s.policies.selection.get())
          ->begin_step(
              {view, *s.retriever, layout.positions[layout.first_row[i]], s.prompt_tokens});
    }
    s.counters.policy_seconds += seconds_since(start);
  }
}

void Engine::show_hidden(int layer, std::span<const Pass> passes, const Layout& layout) {
  for (std::size_t i = 0; i < passes.size(); ++i) {
    for (Retriever* retriever : retrievers_of(passes[i])) {
      if (!retriever->reads_layer(model_.config(), layer)) continue;
      Stage &from = stage_of(layer), &to = stages_.front();
      const std::int64_t rows = std::ssize(passes[i].tokens);
      MatrixView<const float> hidden = from.hidden.view.rows_at(layout.first_row[i], rows);
      if (&from != &to) {
        to.shown.make_room(rows, layout.hidden);
        from.memory->synchronize();
        to.memory->copy(std::array{copy_of(hidden.data, to.shown.data(), rows * layout.hidden)});
        to.memory->synchronize();
        hidden = to.shown.view;
      }
      const auto start = Clock::now();
      retriever->enter_layer(retriever_pass(passes[i]), layer, hidden);
      passes[i].sequence->counters.policy_seconds += seconds_since(start);
    }
  }
}

void Engine::give_retriever(const Sequence& from, Sequence& fork) {
  if (!fork.retriever) return;
  if (const Retriever* known = from.find_retriever(fork.retriever->key()))
    fork.retriever = known->clone();
}

}  // namespace turnbench
