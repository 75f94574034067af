#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "inference/backend/selection_jobs.h"
#include "inference/kv/slot_copy.h"
#include "inference/policy/retriever.h"
#include "inference/policy/selection_policy.h"

namespace turnbench {

// Optional interfaces of selection policies.  A policy inherits those that it implements; the
// engine finds them with `capability`.

/// The policy as an optional interface; null if the policy does not implement it.
template <typename Capability>
Capability* capability(SelectionPolicy* policy) {
  return dynamic_cast<Capability*>(policy);
}
template <typename Capability>
const Capability* capability(const SelectionPolicy* policy) {
  return dynamic_cast<const Capability*>(policy);
}

/// A policy that also selects during the prefill (infllm, round).  The slot of each token must
/// equal its position, so no token may be evicted.  Sequences that share such a prefill continue
/// with clones of the policy that selected in it.
class PromptSelection {
 public:
  virtual ~PromptSelection() = default;
  /// Whether the policy, with its settings, selects during the prefill.
  virtual bool selects_in_prefill() const { return true; }
  /// As PrefillPolicy::reuses_cached_prompt.
  virtual bool reuses_cached_prompt() const { return true; }
  /// The number of rows, at least 1, of the next segment of a prompt.  The segment starts at
  /// position `first`; `rows` rows of the prompt remain, including those of the segment.  A segment
  /// passes through all layers before the next segment starts, so that later segments can use its
  /// selections.
  virtual int segment_rows(const DialogueView& /*dialogue*/, std::int32_t /*first*/, int rows) {
    return rows;
  }
  /// True if a segment may be split into chunks at any row.  A long segment is then computed layer
  /// by layer: all of its chunks pass through one layer before the next layer starts.
  virtual bool chunkable() const { return false; }
  /// The number of rows in the next query block; `select` is called once per block.  Called for
  /// each layer before each block.  view: of the pass, from the block's first row on.
  virtual int query_block_rows(const LayerView& view) { return view.rows; }
  /// Called after the attention of a query block of a prompt, and after that of a decode step.  The
  /// view equals that of `select`, except that its `sets` are those that attention has read.  If
  /// only pinned tokens are on the device, these sets contain only pinned tokens.  lse: log-sum-exp
  /// over all keys that the rows read, [rows, heads].
  virtual void after_attention(const LayerView&, MatrixView<const float> /*lse*/) {}
};

/// A decode step of one sequence, before the first layer is computed.
struct StepView {
  const RetrieverPass& pass;
  Retriever& retriever;       ///< has already processed the step's token
  std::int32_t position = 0;  ///< position of that token
  int prompt_tokens = 0;      ///< as in LayerView
};

/// A policy that selects with an auxiliary (draft) model, which scores all tokens once per decode
/// step, before layer 0 (specontext).
class StepRetrieval {
 public:
  virtual ~StepRetrieval() = default;
  /// Makes the retriever of a sequence.
  virtual std::unique_ptr<Retriever> make_retriever() const = 0;
  /// The data that all retrievers of the method share.
  virtual MethodResource resource(const ModelConfig&, DType /*weights*/) const { return {}; }
  /// Called once per decode step, before the first layer.
  virtual void begin_step(const StepView&) {}
};

/// Layers [begin, end).
struct LayerRange {
  int begin = 0, end = 0;
};

/// A policy that uses one selection in several layers: in all layers, selected before layer 0
/// (specontext), or in the layers after the one that selects (SharedSelection in methods/).
class SelectsAhead {
 public:
  virtual ~SelectsAhead() = default;
  /// The layers whose selection is known after the attention of `layer`; -1: before layer 0.
  /// `select` of these layers reads neither queries nor keys.  If one of them is offloaded, the
  /// engine calls `select` and starts the transfers at that point.
  virtual LayerRange known_after(int layer, const ModelShape&) const = 0;
};

/// A policy that offloads layers while decoding, although `demand` kept them on the device at first
/// (specontext).
class OffloadsDuringDecode {
 public:
  virtual ~OffloadsDuringDecode() = default;
  /// Called before each step for each layer that is on the device (`size.layer`); `size.tokens`
  /// excludes the step's token.  If `everything` is not set in the result, the layer is offloaded,
  /// but the tokens that the previous step read stay on the device.
  virtual DeviceNeeds demand_while_decoding(const PromptSize& size) const = 0;
  /// True if layers may be offloaded during decoding.
  virtual bool may_offload() const { return true; }
};

/// The tokens that a step reads and whose keys must be rebuilt.
struct MissingKeys {
  std::span<KvHeadCache> sets;  ///< working sets of the layer, in the backend's memory
  /// Slots in the view's sets (`host`), and in the working sets (`device`).
  std::span<const SlotCopy> tokens;
  RopeTable rope;  ///< covers the positions of all tokens
};

/// A policy that rebuilds keys (shadowkv): for all tokens that are not pinned, attention reads the
/// rebuilt keys instead of the cached ones.  With such a policy, steps read a working set with rule
/// kPrevious, even if the cache is on the device.
class KeyRebuilder {
 public:
  virtual ~KeyRebuilder() = default;
  /// Writes the missing keys.  Called in each step after `select`.
  virtual void rebuild_keys(const LayerView&, const MissingKeys&) = 0;
  /// Bytes of the data from which the keys of a layer are rebuilt.
  virtual std::size_t key_bytes(int layer) const = 0;
};

/// A policy that transfers an index to the device before the layer that reads it (pqcache).
class IndexTransfer {
 public:
  virtual ~IndexTransfer() = default;
  /// Called in each step for each offloaded layer, before the attention of the previous layer; for
  /// layer 0, before its own attention.
  virtual void prefetch(int layer, const IndexPath&) = 0;
};

}  // namespace turnbench
