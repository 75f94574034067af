#pragma once

// A small selection method, with the typical errors of such methods as faults.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "inference/backend/backend.h"
#include "inference/policy/policy.h"
#include "methods/parts/cached_keys.h"
#include "methods/parts/scores.h"

namespace turnbench::test {

/// Reads sinks, a local window, and the blocks of tokens whose mean keys have the largest products
/// with the step's queries, summed over the query heads of a KV set.
class BlockTopK : public SelectionPolicy {
 public:
  enum class Fault {
    kNone,
    kGapInPinned,         ///< the pinned tokens lack one that every step reads
    kTooFewPinned,        ///< demand() declares fewer pinned tokens than pinned() returns
    kTooFewStepTokens,    ///< demand() declares fewer tokens per step than select() returns
    kStaleIndex,          ///< the index lacks the tokens of the answer
    kPinsTheCurrentOnly,  ///< only the current token is pinned
    kGivesHostKeys,       ///< passes a KV set in host memory to a backend operation
  };

  explicit BlockTopK(Fault fault) : fault_(fault) {}

  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<BlockTopK>(*this);
  }
  SelectionTraits traits() const override { return {.needs_whole_answers = true}; }

  DeviceNeeds demand(const PromptSize& size, const LayerView*) const override {
    return {.everything = size.tokens <= kSinks + kBlocks * kBlock + kLocal + kBlock,
            .pinned_tokens = fault_ == Fault::kTooFewPinned ? 2 : kSinks + kLocal + kBlock + 1,
            .step_tokens = fault_ == Fault::kTooFewStepTokens ? 1 : kBlocks * kBlock,
            .first = kSinks};
  }

  std::vector<SlotRange> pinned(int /*layer*/, int /*set*/, int tokens) const override {
    const int window = window_begin(tokens);
    if (fault_ == Fault::kPinsTheCurrentOnly) return {{tokens - 1, tokens}};
    if (fault_ == Fault::kGapInPinned && window + 2 < tokens)
      return {{0, kSinks}, {window, window + 1}, {window + 2, tokens}};
    return sinks_and_window(kSinks, window, tokens);
  }

  void after_prefill(const LayerView& view) override {
    layers_.resize(static_cast<std::size_t>(view.shape.layers));
    Layer& layer = layers_[view.layer];
    layer.means.assign(view.sets.size(), {});
    layer.tokens = view.sets.front().size();
    extend(view, layer);
  }

  Selection select(const LayerView& view) override {
    Layer& layer = layers_[view.layer];
    const int tokens = view.sets.front().size();
    if (tokens != layer.tokens + 1) layer.means.assign(view.sets.size(), {});  // was truncated
    layer.tokens = tokens;
    if (fault_ != Fault::kStaleIndex) extend(view, layer);
    std::vector<float> queries(static_cast<std::size_t>(view.shape.heads * view.shape.head_dim));
    view.backend->memory()->copy_floats(view.queries.data, queries.data(), queries.size());
    Selection out;
    for (std::size_t s = 0; s < view.sets.size(); ++s)
      out.slots.push_back(slots_of(view.sets[s].size(), best_blocks(view, queries, s, layer)));
    return out;
  }

 private:
  static constexpr int kSinks = 2, kLocal = 6, kBlock = 4, kBlocks = 4;
  struct Layer {
    std::vector<std::vector<float>> means;  ///< [sets][blocks, head_dim]
    int tokens = 0;                         ///< tokens of the first set in the last call
  };

  /// The first slot of the local window, which begins at a block boundary.
  static int window_begin(int tokens) {
    return kSinks + std::max(0, tokens - 1 - kLocal - kSinks) / kBlock * kBlock;
  }

  /// Adds the means of the blocks that are complete.
  void extend(const LayerView& view, Layer& layer) const {
    const auto width = static_cast<std::size_t>(view.shape.head_dim);
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      std::vector<float>& means = layer.means[s];
      const int known = kSinks + static_cast<int>(means.size() / width) * kBlock,
                end = window_begin(view.sets[s].size());
      if (end <= known) continue;
      const std::vector<float> keys = keys_of(view, view.sets[s], known, end);
      for (int first = 0; first < end - known; first += kBlock) {
        for (std::size_t d = 0; d < width; ++d) {
          float sum = 0;
          for (int t = first; t < first + kBlock; ++t)
            sum += keys[static_cast<std::size_t>(t) * width + d];
          means.push_back(sum / kBlock);
        }
      }
    }
  }

  std::vector<float> keys_of(const LayerView& view, const KvHeadCache& set, int first,
                             int end) const {
    if (fault_ != Fault::kGivesHostKeys) return keys_on_host(*view.backend, set, first, end);
    const std::int64_t rows = end - first, width = view.shape.head_dim;
    float* on_device = view.scratch->floats(static_cast<std::size_t>(rows * width));
    const ReadRowsJob job{&set, first, KvRow::kKey, {on_device, rows, width}};
    view.backend->read_rows({&job, 1});
    std::vector<float> out(static_cast<std::size_t>(rows * width));
    view.backend->memory()->copy_floats(on_device, out.data(), out.size());
    return out;
  }

  static std::vector<std::int32_t> best_blocks(const LayerView& view,
                                               const std::vector<float>& queries, std::size_t set,
                                               const Layer& layer) {
    const std::vector<float>& means = layer.means[set];
    const auto width = static_cast<std::size_t>(view.shape.head_dim),
               heads = static_cast<std::size_t>(view.heads_per_set());
    std::vector<float> scores(means.size() / width);
    for (std::size_t b = 0; b < scores.size(); ++b) {
      for (std::size_t h = set * heads; h < (set + 1) * heads; ++h) {
        const float* query = queries.data() + h * width;
        scores[b] += std::inner_product(query, query + width, means.data() + b * width, 0.0f);
      }
    }
    return top_k(scores, kBlocks);
  }

  static std::vector<std::int32_t> slots_of(int tokens, const std::vector<std::int32_t>& blocks) {
    std::vector<std::int32_t> out;
    const auto add = [&](int begin, int end) {
      for (int slot = begin; slot < end; ++slot) out.push_back(slot);
    };
    const int window = window_begin(tokens);
    add(0, std::min(kSinks, tokens));
    for (const std::int32_t b : blocks) {
      const int begin = kSinks + b * kBlock;
      if (begin < window) add(begin, begin + kBlock);
    }
    add(window, tokens);
    return out;
  }

  Fault fault_;
  std::vector<Layer> layers_;
};

}  // namespace turnbench::test
