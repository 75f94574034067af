#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <set>
#include <span>
#include <string>

#include "harness/experiment/experiment.h"
#include "inference/devices/devices.h"
#include "inference/engine/memory_estimate.h"

namespace turnbench {

/// Memory of a batch.  Pages come from pools, which keep them for later batches: one for each
/// layout, on the device and in host memory.
struct BatchBytes {
  std::array<std::size_t, 4> pages = {};
  std::size_t rest = 0;

  void at_least(const BatchBytes& other) {
    for (std::size_t i = 0; i < pages.size(); ++i) pages[i] = std::max(pages[i], other.pages[i]);
    rest = std::max(rest, other.rest);
  }
  std::size_t total() const { return std::accumulate(pages.begin(), pages.end(), rest); }
};

/// The sequences that run at the same time: their keys and values, and their largest pass.
class BatchMemory {
 public:
  BatchMemory(const ResolvedModel& model, std::span<const Device> devices)
      : config_(model.checkpoint.config),
        weights_(model.dtype),
        dtype_(model.entry.kv_dtype),
        devices_(devices) {}

  PageLayout layout(bool pre_rope_keys) const { return {config_.head_dim, dtype_, pre_rope_keys}; }
  /// Adds pages for `tokens` tokens, with `sets` sets per layer.
  void add_pages(std::int64_t tokens, int sets, bool pre_rope_keys) {
    add_pages_of_layers(config_.layers, tokens, sets, pre_rope_keys);
  }
  void add_pages_of_layers(int layers, std::int64_t tokens, int sets, bool pre_rope_keys) {
    add_to_pool(pre_rope_keys ? 1 : 0, layers, tokens, sets, pre_rope_keys);
  }
  /// As `add_pages`, in host memory; counted in total if device and host memory are the same.
  void add_host_pages(int layers, std::int64_t tokens, int sets, bool pre_rope_keys);
  void add_working_sets(std::size_t bytes, bool pre_rope_keys) {
    held_.pages[pre_rope_keys ? 1 : 0] += bytes;
  }
  void add_bytes(std::size_t bytes) { held_.rest += bytes; }
  /// Adds a method's auxiliary data, which all sequences share.
  void add_resource(const Policies& policies);
  /// Adds a sequence with its own pages, its last logits, and `window` rows of queries in a buffer
  /// of twice this size.
  void add(std::int64_t tokens, int sets, bool pre_rope_keys, int window) {
    add_pages(tokens, sets, pre_rope_keys);
    add_sequence(window);
  }
  /// As `add`, without the pages.
  void add_sequence(int window);
  /// Adds the sums that `rules` rules keep for each of `tokens` cached tokens.
  void add_columns(std::size_t rules, std::int64_t tokens);
  /// Adds a prefill of `rows` rows with a context of up to `context` tokens, in one pass if
  /// `whole`.
  void add_prefill(std::int64_t rows, std::int64_t context, bool whole, bool pre_rope_keys);
  BatchBytes bytes() const;

 private:
  void add_to_pool(std::size_t pool, int layers, std::int64_t tokens, int sets, bool pre_rope_keys);

  const ModelConfig& config_;
  DType weights_, dtype_;
  std::set<std::string> resources_;
  std::span<const Device> devices_;
  BatchBytes held_;
  std::size_t sequences_ = 0;
  PassSize pass_;
};

}  // namespace turnbench
