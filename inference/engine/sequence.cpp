#include "inference/engine/sequence.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace turnbench {

Sequence::Sequence(const ModelShape& shape, Policies policies,
                   std::span<const std::shared_ptr<const KvStorage>> storage, int tail_rows)
    : policies(std::move(policies)),
      shape_(shape),
      tail_rows_(std::max(tail_rows, this->policies.window())) {
  const QueryTail tail(tail_rows_, shape.heads * shape.head_dim);
  layers.reserve(storage.size());
  for (const auto& of_layer : storage) layers.push_back({LayerKv(shape.kv_heads, of_layer), tail});
  if (const auto* retrieval = capability<StepRetrieval>(this->policies.selection.get()))
    retriever = retrieval->make_retriever();
}

Sequence Sequence::fork() const {
  return fork_as(policies.clone());
}

Sequence Sequence::fork_as(Policies other) const {
  Sequence out(shape_, std::move(other), {}, tail_rows_);
  out.tokens = tokens;
  out.next_position = next_position;
  out.prompt_tokens = prompt_tokens;
  out.generated = generated;
  out.answered = answered;
  out.layers = std::vector<LayerState>(layers);
  if (out.retriever) {
    if (const Retriever* known = find_retriever(out.retriever->key()))
      out.retriever = known->clone();
  }
  for (const auto& of_forks : fork_retrievers) out.fork_retrievers.push_back(of_forks->clone());
  out.counters = counters;
  return out;
}

const Retriever* Sequence::find_retriever(const std::string& key) const {
  if (retriever && retriever->key() == key) return retriever.get();
  const auto found = std::find_if(fork_retrievers.begin(), fork_retrievers.end(),
                                  [&](const auto& r) { return r->key() == key; });
  return found == fork_retrievers.end() ? nullptr : found->get();
}

bool Sequence::stores_pre_rope_keys() const {
  bool out = false;
  for_each_set([&](const KvHeadCache& set) { out |= set.layout().pre_rope_keys; });
  return out;
}

double Sequence::mean_tokens() const {
  double tokens = 0, count = 0;
  for_each_set([&](const KvHeadCache& set) {
    tokens += set.size();
    ++count;
  });
  return count == 0 ? 0 : tokens / count;
}

std::size_t Sequence::page_bytes() const {
  std::size_t out = 0;
  for_each_set([&](const KvHeadCache& set) { out += set.bytes(); });
  for (const LayerState& layer : layers) {
    if (layer.kv.newest() == nullptr) continue;
    for (const KvHeadCache& set : layer.kv.newest()->elements) out += set.bytes();
  }
  return out;
}

std::size_t Sequence::logical_bytes(std::size_t rows) const {
  std::size_t tokens = 0;
  for_each_set([&](const KvHeadCache& set) { tokens += static_cast<std::size_t>(set.size()); });
  return tokens * token_bytes(rows) + element_bytes(rows);
}

std::size_t Sequence::element_bytes(std::size_t rows) const {
  constexpr std::array kKinds = {KvRow::kKey, KvRow::kValue, KvRow::kPreRopeKey};
  std::size_t out = 0;
  for (const LayerState& layer : layers) {
    if (layer.kv.newest() == nullptr) continue;
    const PageLayout& layout = layer.kv.pool()->layout();
    for (std::size_t s = 0; s < layer.kv.sets().size(); ++s) {
      for (std::size_t kind = 0; kind < rows; ++kind) {
        const int encoded = layer.kv.newest()->of[s].encoded_rows(kKinds[kind]);
        const std::size_t more = layout.ElementLayout::row_bytes() - layout.row_bytes(kKinds[kind]);
        out += more * static_cast<std::size_t>(layer.kv.sets()[s].size() - encoded);
      }
    }
  }
  return out;
}

std::size_t Sequence::kv_bytes() const {
  return logical_bytes(rows_per_token()) + policy_key_bytes();
}

std::size_t Sequence::resident_kv_bytes() const {
  std::int64_t slots = 0;
  for (const LayerState& layer : layers) slots += layer.kv.resident_slots();
  return static_cast<std::size_t>(slots) * token_bytes(rows_per_token()) +
         element_bytes(rows_per_token()) + policy_key_bytes();
}

std::size_t Sequence::added_kv_bytes() const {
  std::int64_t slots = 0;
  for (const LayerState& layer : layers) slots += layer.kv.added_slots();
  return static_cast<std::size_t>(slots) * token_bytes(rows_per_token());
}

std::size_t Sequence::policy_key_bytes() const {
  std::size_t out = retriever ? retriever->key_bytes() : 0;
  const auto* rebuilder = capability<KeyRebuilder>(policies.selection.get());
  for (int l = 0; rebuilder != nullptr && l < shape_.layers; ++l) out += rebuilder->key_bytes(l);
  return out;
}

void Sequence::truncate(std::int32_t position) {
  tokens.resize(static_cast<std::size_t>(position));
  next_position = position;
  if (position <= prompt_tokens) answered = false;
  for (LayerState& layer : layers) {
    layer.kv.truncate(position);
    layer.tail.truncate_to_position(position);
  }
  if (retriever) retriever->truncate(position);
  for (const auto& of_forks : fork_retrievers) of_forks->truncate(position);
}

std::int64_t cached_tokens(const Sequence& sequence) {
  std::int64_t out = 0;
  for (const LayerState& layer : sequence.layers)
    out = std::max<std::int64_t>(out, longest_set(layer.kv.sets()));
  return out;
}

}  // namespace turnbench
