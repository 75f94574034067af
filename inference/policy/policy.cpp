#include "inference/policy/policy.h"

#include <limits>

#include "common/error.h"

namespace turnbench {
namespace {

constexpr std::int32_t kRoom = 1024;  // answer tokens before a new working set is needed

/// A copy of a policy or codec; null if there is none.
template <typename Part>
std::unique_ptr<Part> cloned(const std::unique_ptr<Part>& part, const Policies& all) {
  if (part == nullptr) return nullptr;
  std::unique_ptr<Part> out = part->clone();
  if (out == nullptr)
    throw runtime_error("{}: clone: found null, expected a copy of the policy", all.method);
  return out;
}

}  // namespace

Policies Policies::clone() const {
  return {cloned(prefill, *this),
          cloned(eviction, *this),
          cloned(selection, *this),
          cloned(codec, *this),
          placement,
          method,
          evicts_before_question,
          compress_block};
}

Policies Policies::prefill_part() const {
  Policies out;
  out.prefill = cloned(prefill, *this);
  if (selects_in_prefill()) out.selection = cloned(selection, *this);
  if (row_codec() != nullptr) out.codec = cloned(codec, *this);
  out.method = method;
  return out;
}

EncodedBytes Policies::encoded_bytes(int head_dim) const {
  if (!codec) return {};
  const auto checked = [&](KvRow kind) {
    const std::size_t bytes = codec->row_bytes(kind, head_dim);
    if (bytes <= std::numeric_limits<std::uint16_t>::max())
      return static_cast<std::uint16_t>(bytes);
    throw runtime_error("{}: found encoded rows of {} bytes, expected at most {}", method, bytes,
                        std::numeric_limits<std::uint16_t>::max());
  };
  return {checked(KvRow::kKey), checked(KvRow::kValue)};
}

PromptSize prompt_size(const LayerView& view) {
  return {.shape = view.shape,
          .dtype = view.sets.front().layout().dtype,
          .layer = view.layer,
          .sets = static_cast<int>(view.sets.size()),
          .tokens = longest_set(view.sets),
          .prompt_tokens = view.prompt_tokens};
}

DeviceNeeds SelectionPolicy::demand(const PromptSize& prompt, const LayerView*) const {
  return reading_everything(prompt.tokens);
}

std::vector<SlotRange> SelectionPolicy::pinned(int, int, int tokens) const {
  return {{tokens - 1, tokens}};
}

DeviceNeeds reading_everything(std::int32_t tokens) {
  return {.step_tokens = (tokens / kRoom + 2) * kRoom};
}

std::vector<SlotRange> sinks_and_window(int sinks, int window_begin, int tokens) {
  if (window_begin <= sinks) return {{0, tokens}};
  return {{0, sinks}, {window_begin, tokens}};
}

Residency::Options working_set_options(const Placement& placement, const DeviceNeeds& needs,
                                       int sets, std::int32_t longest) {
  using Rule = Residency::Rule;
  constexpr std::int32_t kAnswer = 4096;  // tokens
  const std::int32_t useful = longest + kAnswer;
  Residency::Options out;
  out.rule = placement.rule;
  out.sets = sets;
  out.lists_per_set = needs.lists_per_set;
  out.block = std::min(needs.block > 0 ? needs.block : placement.cache_block, useful);
  out.first = needs.first;
  const std::int32_t blocks = (useful + out.block - 1) / out.block,
                     step_tokens = std::min(needs.step_tokens, useful * needs.lists_per_set);
  out.cache_tokens = std::min(placement.cache_tokens, blocks * out.block);
  out.pinned_tokens = std::min(needs.pinned_tokens, useful);
  out.insert_blocks = placement.insert_blocks;
  out.per_list = needs.per_list && out.rule == Rule::kPrevious;
  // Each list can read every token, so the lists of a set together can read more than the set has.
  const std::int32_t caches = out.per_list ? out.lists_per_set : 1;
  const auto of_cache = [&](std::int32_t tokens) { return (tokens + caches - 1) / caches; };
  out.cache_tokens = of_cache(out.cache_tokens);
  if (out.rule == Rule::kLru || out.rule == Rule::kLfu) {
    out.step_tokens = step_tokens;
  } else if (needs.block > 0) {  // the cache has exactly what a step reads: whole blocks
    out.cache_tokens = std::max(out.cache_tokens, of_cache(step_tokens));
  } else {  // each token may be in a separate block, which kDemand rules load for all sets
    const bool demand = out.rule != Rule::kPrevious;
    const std::int64_t read = std::int64_t{of_cache(step_tokens)} * (demand ? sets : 1);
    const auto room_among = [&](std::int32_t of_blocks) {
      return static_cast<std::int32_t>(std::min<std::int64_t>(read, of_blocks)) * out.block;
    };
    const std::int32_t first_step = room_among((longest + out.block) / out.block);
    if (demand && placement.cache_tokens > 0 && placement.cache_tokens < first_step) {
      throw input_error(
          "cache_tokens: found {} with a cache_rule that loads all tokens of a step, expected 0 "
          "(as many as needed) or at least {}",
          placement.cache_tokens, first_step);
    }
    out.cache_tokens = std::max(out.cache_tokens, room_among(blocks));
  }
  return out;
}

}  // namespace turnbench
