#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inference/engine/engine_core.h"

namespace turnbench {

/// Appends keys and values to layers, and moves those of offloaded layers between host and device.
class KvTransfers {
 public:
  explicit KvTransfers(EngineCore& core) : core_(core) {}

  void append_keys(int layer, std::span<const Pass> passes, const ForwardBatch& batch);
  /// The jobs that write the rows of pass `pass`.
  void add_append_jobs(int layer, std::size_t pass, const ForwardBatch& batch,
                       const AppendPlan& plan, std::vector<AppendJob>& jobs);
  /// Begins a step of the ledgers of what is offloaded: each decode step is one, and all of a
  /// turn's prefill.
  static void begin_ledgers(const Pass& pass);
  IndexPath index_path(Sequence& sequence, int layer);
  /// Appends the token of a decode step, whose rows are then to be written.
  AppendPlan append_step(Sequence& sequence, int layer, std::span<const std::int32_t> position);
  /// Moves layers of an answer to host memory whose method no longer needs all of them.
  void move_in_answers(std::span<const Pass> passes);
  /// Asks policies that select ahead once layer `after` was asked (-1: the step has begun) for the
  /// offloaded layers behind it, and starts to bring those to the device.
  void fetch_ahead(int after, std::span<const Pass> passes, ForwardBatch& batch);
  /// Starts to bring what a decode step reads to the device, if it is not there.
  Readable fetch(Sequence& sequence, const LayerView& view, const Selection& selection);
  /// What a step of a layer moves over the link; of a layer on the device, what counts nowhere.
  LedgerEntry& ledger_of(Sequence& sequence, int layer);
  /// Where the rows of a pass are to be written in a layer of which only pinned tokens are read.
  /// Brings there what else the pass reads and is not there yet.
  AppendPlan pinned_rows(Sequence& sequence, int layer, std::span<const std::int32_t> positions);
  /// Replaces what the layers from `layer` on have pinned before a pass from host slot `first` to
  /// `end`.
  void repin(Sequence& sequence, int layer, std::int32_t first, std::int32_t end);
  /// Moves a layer to host memory after a prefill pass, if its method wants it there.  view: at the
  /// end of a prompt, else null, unless the layer is to hold what is pinned.  selection: that
  /// decides for the sequence; may be null.
  void move_to_host(Sequence& sequence, int layer, const LayerView* view,
                    const SelectionPolicy* selection);
  /// The working set of a layer of the sequence.
  static Residency::Options working_set_of(const Sequence& sequence, int layer,
                                           const DeviceNeeds& needs);

 private:
  EngineCore& core_;
  LedgerEntry uncounted_;  ///< of layers on the device
};

}  // namespace turnbench
