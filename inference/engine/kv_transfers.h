#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inference/engine/engine_core.h"

namespace turnbench {

/// Appends keys and values to layers, and transfers those of offloaded layers between host and
/// device.
class KvTransfers {
 public:
  explicit KvTransfers(EngineCore& core) : core_(core) {}

  void append_keys(int layer, std::span<const Pass> passes, const ForwardBatch& batch);
  /// Adds the jobs that write the rows of pass `pass`.
  void add_append_jobs(int layer, std::size_t pass, const ForwardBatch& batch,
                       const AppendPlan& plan, std::vector<AppendJob>& jobs);
  /// Encodes the cached tokens of a sequence with a codec that continues from one without.
  void encode_history(Sequence& sequence);
  /// Begins a step in the ledger of each offloaded sequence.  Each decode step is one step; the
  /// whole prefill of a turn is one step.
  static void begin_ledgers(const Pass& pass);
  IndexPath index_path(Sequence& sequence, int layer);
  /// Appends the token of a decode step, whose rows must then be written.
  AppendPlan append_step(Sequence& sequence, int layer, std::span<const std::int32_t> position);
  /// Offloads layers during decoding that the method no longer needs entirely on the device.
  void offload_during_decode(std::span<const Pass> passes);
  /// Prefetches for policies that select ahead: once layer `after` has selected (-1: at the begin
  /// of a step), selects for the offloaded layers after it and starts their transfers to the
  /// device.
  void fetch_ahead(int after, std::span<const Pass> passes, ForwardBatch& batch);
  /// Starts the transfer to the device of the tokens that a decode step reads and that are missing
  /// there.
  Readable fetch(Sequence& sequence, const LayerView& view, const Selection& selection);
  /// The ledger entry of a layer in the current step; a dummy entry for layers on the device.
  LedgerEntry& ledger_of(Sequence& sequence, int layer);
  /// Where the rows of a pass must be written in a layer of which only pinned tokens are read.
  /// Also transfers to the device all missing tokens that the pass reads.
  AppendPlan pinned_rows(Sequence& sequence, int layer, std::span<const std::int32_t> positions);
  /// Updates the pinned tokens of the layers from `layer` on before a pass with host slots [first,
  /// end).
  void repin(Sequence& sequence, int layer, std::int32_t first, std::int32_t end);
  /// Offloads a layer after a prefill pass if its method requires it.  view: null before the end of
  /// a prompt, unless the layer must keep its pinned tokens on the device.  selection: the
  /// selection policy of the sequence; may be null.
  void move_to_host(Sequence& sequence, int layer, const LayerView* view,
                    const SelectionPolicy* selection);
  /// The options of the working set of a layer.
  static Residency::Options working_set_of(const Sequence& sequence, int layer,
                                           const DeviceNeeds& needs);

 private:
  EngineCore& core_;
  LedgerEntry uncounted_;  ///< dummy entry for layers on the device
};

}  // namespace turnbench
