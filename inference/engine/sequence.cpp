#include "inference/engine/sequence.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace turnbench {
namespace {

/// The tokens, or slots of working sets, of all sets together.
std::size_t slots_of(std::span<const KvHeadCache> sets) {
  std::size_t out = 0;
  for (const KvHeadCache& set : sets) out += static_cast<std::size_t>(set.size());
  return out;
}

}  // namespace

Sequence::Sequence(const ModelShape& shape, Policies policies,
                   std::vector<std::shared_ptr<KvPool>> pools, int tail_rows)
    : cache(shape.kv_heads, std::move(pools)),
      policies(std::move(policies)),
      shape_(shape),
      tail_rows_(std::max(tail_rows, this->policies.window())) {
  tails.assign(static_cast<std::size_t>(shape.layers),
               QueryTail(tail_rows_, shape.heads * shape.head_dim));
  columns.resize(tails.size());
  offloaded.resize(tails.size());
  held.resize(tails.size());
  host_copies.resize(tails.size());
  last_read.resize(tails.size());
  if (this->policies.selection) retriever = this->policies.selection->make_retriever();
}

Sequence Sequence::fork() const {
  return fork_as(policies.clone());
}

Sequence Sequence::fork_as(Policies other) const {
  Sequence out(shape_, std::move(other), cache.pools(), tail_rows_);
  out.tokens = tokens;
  out.next_position = next_position;
  out.prompt_tokens = prompt_tokens;
  out.generated = generated;
  out.answered = answered;
  out.cache = cache;
  out.tails = tails;
  out.columns = columns;
  for (std::size_t l = 0; l < offloaded.size(); ++l) {
    if (offloaded[l]) out.offloaded[l] = std::make_unique<OffloadedLayer>(*offloaded[l]);
    if (held[l]) out.held[l] = std::make_unique<HeldLayer>(*held[l]);
  }
  if (out.retriever) {
    if (const Retriever* known = find_retriever(out.retriever->key()))
      out.retriever = known->clone();
  }
  for (const auto& of_forks : fork_retrievers) out.fork_retrievers.push_back(of_forks->clone());
  out.last_read = last_read;
  out.counters = counters;
  return out;
}

const Retriever* Sequence::find_retriever(const std::string& key) const {
  if (retriever && retriever->key() == key) return retriever.get();
  const auto found = std::find_if(fork_retrievers.begin(), fork_retrievers.end(),
                                  [&](const auto& r) { return r->key() == key; });
  return found == fork_retrievers.end() ? nullptr : found->get();
}

std::size_t Sequence::kv_bytes() const {
  return cache.logical_bytes(rows_per_token()) + policy_key_bytes();
}

std::size_t Sequence::resident_kv_bytes() const {
  std::size_t slots = 0;
  for (int l = 0; l < shape_.layers; ++l) {
    const auto& layer = offloaded[static_cast<std::size_t>(l)];
    const auto& own = held[static_cast<std::size_t>(l)];
    if (layer) slots += slots_of(std::as_const(*layer).sets());
    if (own) slots += slots_of(std::as_const(*own).sets());
    if (!own && (!layer || !policies.placement.host)) slots += slots_of(cache.layer(l));
  }
  return slots * rows_per_token() * cache.pool(0)->layout().row_bytes() + policy_key_bytes();
}

std::size_t Sequence::added_kv_bytes() const {
  std::int64_t slots = 0;
  for (const auto& layer : offloaded) slots += layer ? layer->added_slots() : 0;
  return static_cast<std::size_t>(slots) * rows_per_token() * cache.pool(0)->layout().row_bytes();
}

std::size_t Sequence::policy_key_bytes() const {
  std::size_t out = retriever ? retriever->key_bytes() : 0;
  for (int l = 0; policies.selection && l < shape_.layers; ++l)
    out += policies.selection->key_bytes(l);
  return out;
}

void Sequence::truncate(std::int32_t position) {
  tokens.resize(static_cast<std::size_t>(position));
  next_position = position;
  if (position <= prompt_tokens) answered = false;
  cache.truncate_to_position(position);
  last_read.assign(tails.size(), {});
  if (retriever) retriever->truncate(position);
  for (const auto& of_forks : fork_retrievers) of_forks->truncate(position);
  for (QueryTail& tail : tails) tail.truncate_to_position(position);
  for (std::size_t l = 0; l < offloaded.size(); ++l) {
    if (held[l]) held[l]->truncate(position);
    if (!offloaded[l]) continue;
    std::vector<std::int32_t> left;
    for (const KvHeadCache& set : cache.layer(static_cast<int>(l))) left.push_back(set.size());
    offloaded[l]->truncate(left);
  }
}

}  // namespace turnbench
