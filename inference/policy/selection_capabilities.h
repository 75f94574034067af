#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "inference/backend/selection_jobs.h"
#include "inference/policy/retriever.h"
#include "inference/policy/selection_policy.h"

namespace turnbench {

// What some selection policies do beside choosing tokens.  A policy inherits the interfaces that it
// needs; the engine finds them with `capability`.

/// The policy as another interface; null if it does not implement that.
template <typename Capability>
Capability* capability(SelectionPolicy* policy) {
  return dynamic_cast<Capability*>(policy);
}
template <typename Capability>
const Capability* capability(const SelectionPolicy* policy) {
  return dynamic_cast<const Capability*>(policy);
}

/// Selects in prompts too (infllm, round).  Slots are positions: nothing may be evicted.  Sequences
/// that share such a prefill continue with clones of its policy.
class PromptSelection {
 public:
  virtual ~PromptSelection() = default;
  /// Whether it really does.
  virtual bool selects_in_prefill() const { return true; }
  /// As PrefillPolicy::reuses_cached_prompt.
  virtual bool reuses_cached_prompt() const { return true; }
  /// How many of the `rows` rows of a prompt from position `first` on go through all layers before
  /// the others do, so that what is chosen for them is known before.  At least one.
  virtual int segment_rows(const DialogueView& /*dialogue*/, std::int32_t /*first*/, int rows) {
    return rows;
  }
  /// True if rows of a prompt may be divided anywhere.  Such a prompt goes through each layer in
  /// chunks, and through a whole layer before the next one.
  virtual bool chunkable() const { return false; }
  /// The number of rows that are attended together next: `select` is called for each such block.
  /// Called for each layer before each block.  view: of the pass from the block's first row on.
  virtual int query_block_rows(const LayerView& view) { return view.rows; }
  /// Called after the attention of what `select` was called for, with the same view; its sets are
  /// those on the device, where that has the pinned tokens alone.  lse: of all that the rows read,
  /// [rows, heads].
  virtual void after_attention(const LayerView&, MatrixView<const float> /*lse*/) {}
};

/// A step of one sequence before its first layer.
struct StepView {
  const RetrieverPass& pass;
  Retriever& retriever;       ///< which has seen the step's token
  std::int32_t position = 0;  ///< of that token
  int prompt_tokens = 0;      ///< as in LayerView
};

/// Chooses with an auxiliary model that scores all tokens once per decode step, before layer 0
/// (specontext).
class StepRetrieval {
 public:
  virtual ~StepRetrieval() = default;
  /// The retriever of a sequence.
  virtual std::unique_ptr<Retriever> make_retriever() const = 0;
  /// What all of them share.
  virtual MethodResource resource(const ModelConfig&, DType /*weights*/) const { return {}; }
  /// Called once in a step, before the first layer.
  virtual void begin_step(const StepView&) {}
};

/// Reuses the selection of one layer in all deeper layers (specontext, specontext-self).
class SelectsAhead {
 public:
  virtual ~SelectsAhead() = default;
  /// The layer that decides, after which `select` reads neither queries nor keys; -1: before layer
  /// 0; none: every layer decides for itself.  Offloaded layers after it are asked, and their
  /// transfers begin, as soon as it has decided.
  virtual std::optional<int> deciding_layer(const ModelShape&) const = 0;
};

/// Offloads layers while an answer is decoded that `demand` kept on the device (specontext).
class OffloadsDuringDecode {
 public:
  virtual ~OffloadsDuringDecode() = default;
  /// Called before each step; `size.tokens` are those before it.  If not everything is needed, the
  /// layer goes to host memory, and what the previous step read of it stays on the device.
  virtual DeviceNeeds demand_while_decoding(const PromptSize& size) const = 0;
  /// Whether that is ever less than everything.
  virtual bool may_offload() const { return true; }
};

/// Tokens that a step reads and whose keys are to be written.
struct MissingKeys {
  std::span<KvHeadCache> sets;  ///< working sets of the layer, in the backend's memory
  /// From slots of the view's sets (`host`) to those of the working sets (`device`).
  std::span<const SlotCopy> tokens;
  RopeTable rope;  ///< of all their positions
};

/// Attention reads other keys than the cached ones, for all tokens that are not pinned (shadowkv).
/// Steps then read a working set with rule kPrevious, also where keys and values are on the device.
class KeyRebuilder {
 public:
  virtual ~KeyRebuilder() = default;
  /// Writes keys.  Called in a step after `select`.
  virtual void rebuild_keys(const LayerView&, const MissingKeys&) = 0;
  /// Bytes of what the keys of a layer are rebuilt from.
  virtual std::size_t key_bytes(int layer) const = 0;
};

/// Transfers an index to the device before the layer that reads it (pqcache).
class IndexTransfer {
 public:
  virtual ~IndexTransfer() = default;
  /// Called for each offloaded layer of a step before the attention of the layer before it.
  virtual void prefetch(int layer, const IndexPath&) = 0;
};

}  // namespace turnbench
