#include "methods/parts/block_selection.h"

#include <algorithm>
#include <array>
#include <typeinfo>
#include <utility>

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
  Layer& layer = layers_[view.layer];
  layer.own.assign(view.sets.size(), {});
  layer.prompt = view.memo->get<LayerVectors>(
      fmt::format("{} {}, {} tokens after {}", typeid(*this).name(), vectors(), s_.block, s_.sinks),
      [&] {
        auto out = std::make_shared<LayerVectors>();
        for (const KvHeadCache& set : view.sets)
          out->push_back(extended(view, set, {}, 0, complete_blocks(set.size())));
        return out;
      });
}

std::vector<Candidates> BlockSelection::begin_step(const LayerView& view) {
  std::vector<Candidates> out;
  for (std::size_t s = 0; s < view.sets.size(); ++s) {
    const int blocks = complete_blocks(view.sets[s].size());
    out.push_back(
        {s, 0, view.heads_per_set(), blocks, 0, blocks, chosen_blocks(view.prompt_tokens)});
  }
  return reads_all(out) ? std::vector<Candidates>() : out;
}

void BlockSelection::score(const LayerView& view, std::size_t set, MatrixView<float> scores,
                           SelectionJobs& jobs) {
  const Vectors& prompt = (*layers_[view.layer].prompt)[set];
  Vectors& own = layers_[view.layer].own[set];
  const int blocks = static_cast<int>(scores.columns);
  if (own.blocks > blocks - prompt.blocks) own = {};  // the sequence was truncated
  own = extended(view, view.sets[set], own, prompt.blocks, blocks);
  int first = 0;
  for (const Vectors* part : {&prompt, static_cast<const Vectors*>(&own)}) {
    const int count = std::min(part->blocks, blocks - first);
    if (count <= 0) continue;
    jobs.vectors.push_back({view.step_queries(set),
                            {part->floats->as<float>(), count, view.shape.head_dim},
                            scores.columns_at(first, count)});
    first += count;
  }
}

std::vector<std::int32_t> BlockSelection::slots(const LayerView& view, const Candidates& list,
                                                std::span<const std::int32_t> best) const {
  const int tokens = view.sets[list.set].size();
  std::vector<std::int32_t> out = all_slots(std::min(s_.sinks, tokens));
  for (const std::int32_t block : best)
    out = with_tail(std::move(out), begin_of(block), begin_of(block + 1));
  return with_tail(std::move(out), begin_of(complete_blocks(tokens)), tokens);
}

}  // namespace turnbench
