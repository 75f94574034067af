#include "methods/parts/block_selection.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

#include "inference/backend/backend.h"
#include "methods/parts/cached_keys.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

constexpr int kMoreBlocks = 16;  ///< room for blocks of an answer

}  // namespace

int BlockSelection::chosen_blocks(int prompt_tokens) const {
  return std::max(1, (s_.budget.tokens(prompt_tokens) - s_.sinks) / s_.block - 1);
}

int BlockSelection::complete_blocks(int tokens) const {
  return std::max(0, tokens - 1 - s_.sinks) / s_.block;
}

DeviceNeeds BlockSelection::demand(const PromptSize& size, const LayerView*) const {
  const int chosen = chosen_blocks(size.prompt_tokens);
  return {.everything = complete_blocks(size.tokens) <= chosen,
          .pinned_tokens = s_.sinks + s_.block + 1,
          .step_tokens = chosen * s_.block,
          .first = s_.sinks,
          .index_bytes = size.key_elements(size.tokens / s_.block + kMoreBlocks) * sizeof(float)};
}

std::vector<SlotRange> BlockSelection::pinned(int, int, int tokens) const {
  return sinks_and_window(s_.sinks, begin_of(complete_blocks(tokens)), tokens);
}

BlockSelection::Vectors BlockSelection::extended(const LayerView& view, const KvHeadCache& set,
                                                 const Vectors& known, int first, int end) const {
  const auto dim = static_cast<std::size_t>(view.shape.head_dim);
  const int begin = first + known.blocks, added = end - begin;
  if (added <= 0) return known;
  const std::vector<float> keys = keys_on_host(*view.backend, set, begin_of(begin), begin_of(end));
  std::vector<float> vectors(static_cast<std::size_t>(added) * dim);
  for (int b = 0; b < added; ++b) {
    const float* of_block = keys.data() + static_cast<std::size_t>(b * s_.block) * dim;
    vector_of({of_block, s_.block, view.shape.head_dim},
              std::span(vectors).subspan(static_cast<std::size_t>(b) * dim, dim));
  }
  const std::shared_ptr<Memory>& memory = view.backend->memory();
  const std::size_t used = static_cast<std::size_t>(known.blocks) * dim;
  auto floats = std::make_shared<Buffer>((used + vectors.size()) * sizeof(float), memory);
  std::vector<Copy> copies = {copy_of(vectors.data(), floats->as<float>() + used, vectors.size())};
  if (used > 0) copies.push_back(copy_of(known.floats->as<float>(), floats->as<float>(), used));
  memory->copy(copies);
  return {std::move(floats), known.blocks + added};
}

void BlockSelection::after_prefill(const LayerView& view) {
  layers_.resize(static_cast<std::size_t>(view.shape.layers));
  Layer& layer = layers_[static_cast<std::size_t>(view.layer)];
  layer.own.assign(view.sets.size(), {});
  layer.prompt = view.memo->get<LayerVectors>(
      fmt::format("{}, {} tokens after {}", vectors(), s_.block, s_.sinks), [&] {
        auto out = std::make_shared<LayerVectors>();
        for (const KvHeadCache& set : view.sets)
          out->push_back(extended(view, set, {}, 0, complete_blocks(set.size())));
        return out;
      });
}

Selection BlockSelection::select(const LayerView& view) {
  Layer& layer = layers_[static_cast<std::size_t>(view.layer)];
  const int chosen = chosen_blocks(view.prompt_tokens);
  const std::int64_t heads = view.heads_per_set(), dim = view.shape.head_dim;
  std::vector<int> blocks;  // of each set
  for (const KvHeadCache& set : view.sets) blocks.push_back(complete_blocks(set.size()));
  if (*std::max_element(blocks.begin(), blocks.end()) <= chosen) return {};
  const auto floats = std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0});
  float* memory = view.scratch->floats(static_cast<std::size_t>((heads + 1) * floats));
  std::vector<VectorScoreJob> scores;
  std::vector<ReduceHeadsJob> sums;
  std::vector<TopKJob> choices;
  std::vector<std::vector<std::int32_t>> best(view.sets.size());
  for (std::size_t s = 0; s < view.sets.size(); ++s) {
    const Vectors& prompt = (*layer.prompt)[s];
    Vectors& own = layer.own[s];
    if (own.blocks > blocks[s] - prompt.blocks) own = {};  // the sequence was truncated
    own = extended(view, view.sets[s], own, prompt.blocks, blocks[s]);
    const MatrixView<float> of_heads(memory, heads, blocks[s]),
        sum(memory + heads * blocks[s], 1, blocks[s]);
    memory += (heads + 1) * blocks[s];
    const auto q = MatrixView<const float>(view.queries.data, view.shape.heads, dim)
                       .rows_at(static_cast<std::int64_t>(s) * heads, heads);
    int first = 0;
    for (const Vectors* part : {&prompt, static_cast<const Vectors*>(&own)}) {
      const int count = std::min(part->blocks, blocks[s] - first);
      if (count > 0)
        scores.push_back(
            {q, {part->floats->as<float>(), count, dim}, of_heads.columns_at(first, count)});
      first += count;
    }
    sums.push_back({of_heads, HeadReduction::kSum, sum});
    choices.push_back({{sum.data, static_cast<std::size_t>(blocks[s])}, chosen, &best[s]});
  }
  view.backend->score_vectors(view.scale, scores);
  view.backend->reduce_heads(sums);
  view.backend->top_k(choices);
  Selection out;
  for (std::size_t s = 0; s < view.sets.size(); ++s) {
    std::vector<std::int32_t> slots = all_slots(std::min(s_.sinks, view.sets[s].size()));
    for (const std::int32_t block : best[s]) {
      for (int i = 0; i < s_.block; ++i) slots.push_back(begin_of(block) + i);
    }
    out.slots.push_back(with_tail(std::move(slots), begin_of(blocks[s]), view.sets[s].size()));
  }
  return out;
}

}  // namespace turnbench
