#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>

#include "harness/experiment/experiment.h"
#include "inference/devices/devices.h"
#include "inference/engine/memory_estimate.h"

namespace turnbench {

/// Memory of a batch.  Pages come from pools, which keep them for later batches: one for each
/// layout, on the device and in host memory.
struct BatchBytes {
  /// Whether it is in host memory, whether it has pre-RoPE keys, and bytes of encoded rows.
  using Pool = std::tuple<bool, bool, EncodedBytes>;
  std::map<Pool, std::size_t> pages;
  std::size_t rest = 0;

  void at_least(const BatchBytes& other) {
    for (const auto& [pool, bytes] : other.pages) pages[pool] = std::max(pages[pool], bytes);
    rest = std::max(rest, other.rest);
  }
  std::size_t total() const {
    std::size_t out = rest;
    for (const auto& [pool, bytes] : pages) out += bytes;
    return out;
  }
};

/// The calls of `Engine::prefill` in a turn, one after another (see prefill_groups.h).
enum class PrefillCall {
  kDenseHistory,
  kPreviousQuestion,  ///< rows of the previous turn's question, for prefills up to the question
  kShared,            ///< rows that these share with the prefill of the whole prompt
  kRest,              ///< the other rows, up to the end of each prefill
  kScoring,           ///< the passes that score the tokens of prompts
  kQuestion,          ///< the question, after methods have evicted before it
  kCount
};

/// The sequences that run at the same time: their keys and values, and their largest pass.
class BatchMemory {
 public:
  BatchMemory(const ResolvedModel& model, std::span<const Device> devices)
      : config_(model.checkpoint.config),
        weights_(model.dtype),
        dtype_(model.entry.kv_dtype),
        devices_(devices) {
    for (PassSize& pass : passes_) pass.math = with_cache(model.entry.math, dtype_);
  }

  /// The layout of pages with the rows of `policies`.
  PageLayout layout(const Policies& policies, bool pre_rope_keys) const {
    return stored_layout({config_.head_dim, dtype_, pre_rope_keys}, policies);
  }
  PageLayout layout(const Policies& policies) const {
    return layout(policies, policies.pre_rope_keys());
  }
  /// The layout of the pages in which a prefill that several sequences share stores its tokens.
  PageLayout prefix_layout(const Policies& policies, bool pre_rope_keys) const {
    return prefill_layout({config_.head_dim, dtype_, pre_rope_keys}, policies);
  }
  /// Adds pages for `tokens` tokens, with `sets` sets per layer.
  void add_pages(std::int64_t tokens, int sets, const PageLayout& layout) {
    add_pages_of_layers(config_.layers, tokens, sets, layout);
  }
  void add_pages_of_layers(int layers, std::int64_t tokens, int sets, const PageLayout& layout);
  /// With a GroupCodec, adds pages for the tokens that are elements: the newest of `tokens`, or
  /// `rows` rows of a prompt if these are more.
  void add_elements(const Policies& policies, std::int64_t tokens, int sets, std::int64_t rows = 0);
  /// As `add_pages`, in host memory; counted in total if device and host memory are the same.
  void add_host_pages(int layers, std::int64_t tokens, int sets, const PageLayout& layout);
  void add_working_sets(std::size_t bytes, const PageLayout& layout);
  /// Adds the copies that a sequence with a codec decodes in a step, or in a prompt, for one layer
  /// at a time.  Steps and prompts are separate passes, whose copies have the same pages.
  void add_decoded_step(const Policies& policies, int sets, std::int64_t tokens) {
    decoded_in_step_ += decoded_bytes(policies, sets, tokens, false);
  }
  void add_decoded_prompt(const Policies& policies, std::int64_t tokens) {
    decoded_in_prompt_ += decoded_bytes(policies, config_.kv_heads, tokens, true);
  }
  void add_bytes(std::size_t bytes) { held_.rest += bytes; }
  /// Adds a method's auxiliary data, which all sequences share.
  void add_resource(const Policies& policies);
  /// Adds a sequence with its own pages, its last logits, and `window` rows of queries in a buffer
  /// of twice this size.
  void add(std::int64_t tokens, int sets, const PageLayout& layout, int window) {
    add_pages(tokens, sets, layout);
    add_sequence(window);
  }
  /// As `add`, without the pages.
  void add_sequence(int window);
  /// As `add`, only the rows of queries.
  void add_query_rows(int window);
  /// Adds the sums that `rules` rules keep for each of `tokens` cached tokens.
  void add_columns(std::size_t rules, std::int64_t tokens);
  /// Adds a prefill of `rows` rows with a context of up to `context` tokens, in one pass if
  /// `whole`.
  void add_prefill(PrefillCall call, std::int64_t rows, std::int64_t context, bool whole,
                   bool pre_rope_keys);
  BatchBytes bytes() const;

 private:
  std::size_t decoded_bytes(const Policies& policies, int sets, std::int64_t tokens,
                            bool prompt_end) const;

  const ModelConfig& config_;
  DType weights_, dtype_;
  std::set<std::string> resources_;
  std::span<const Device> devices_;
  BatchBytes held_;
  std::size_t decoded_in_step_ = 0, decoded_in_prompt_ = 0;
  std::size_t sequences_ = 0;
  /// The largest pass of each call.
  std::array<PassSize, static_cast<std::size_t>(PrefillCall::kCount)> passes_;
};

}  // namespace turnbench
