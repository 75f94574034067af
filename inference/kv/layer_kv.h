#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "inference/kv/device_needs.h"
#include "inference/kv/kv_cache.h"
#include "inference/kv/ledger.h"
#include "inference/kv/link.h"
#include "inference/kv/pinned_layer.h"
#include "inference/kv/working_set.h"

namespace turnbench {

/// Where the pages of layers are allocated, and how they move.  The layers of a stage share it.
struct KvStorage {
  std::shared_ptr<KvPool> device;  ///< in the memory of the stage's backend
  std::shared_ptr<KvPool> host;    ///< in host memory, of the same layout
  /// In host memory, with pre-RoPE keys or without them: that which `host` is not.
  std::shared_ptr<KvPool> other_host;
  std::shared_ptr<Link> link;    ///< between host and device
  std::shared_ptr<Link> within;  ///< from device to device
};

/// Lists of slots: [lists][slots].
using SlotLists = std::vector<std::vector<std::int32_t>>;

/// What attention reads of a layer.
struct Readable {
  std::span<const KvHeadCache> sets;
  bool is_copy = false;  ///< `sets` are copies on the device of what was selected
  SlotLists slots = {};  ///< of such copies, [lists]; none: all slots

  /// The slots of `sets` to read for a selection of slots of the layer; none: all.
  const SlotLists& lists(const SlotLists& selected) const { return is_copy ? slots : selected; }
};

/// Where the rows of new tokens are to be written.
struct AppendPlan {
  std::span<KvHeadCache> sets;           ///< none: not known before the policy has pinned tokens
  std::vector<std::int32_t> first = {};  ///< the slot of the first new token in each
  bool writes_back = false;              ///< the rows are then copied to the host
};

/// A layer's sets in host memory, and the bytes that were copied there.
struct HostCopy {
  std::vector<KvHeadCache> sets;
  std::int64_t bytes = 0;
};

/// The keys and values of one layer of one sequence, wherever they are:
///   - on the device, during a prompt perhaps with a copy of earlier tokens in host memory;
///   - in host memory, with a working set on the device (`WorkingSet`); or on the device, with a
///     working set of tokens whose keys are rebuilt;
///   - in host memory, with the pinned tokens on the device (`PinnedLayer`).
/// A copy is a fork: it shares pages until one side writes, after copies in flight have arrived.
class LayerKv {
 public:
  LayerKv(int kv_heads, std::shared_ptr<const KvStorage> storage);

  /// Every cached token: what policies see.  Slots of selections refer to these sets.
  const std::vector<KvHeadCache>& sets() const { return sets_; }
  std::vector<KvHeadCache>& sets() { return sets_; }
  const std::shared_ptr<KvPool>& pool() const { return storage_->device; }
  std::int32_t longest_set() const;
  /// Whether steps read copies on the device: a working set, or the pinned tokens alone.
  bool is_offloaded() const { return !std::holds_alternative<OnDevice>(where_); }
  const WorkingSet* working_set() const { return in<WorkingSet>(); }     ///< null: none
  const PinnedLayer* pinned_layer() const { return in<PinnedLayer>(); }  ///< null: none
  /// The link over which a step's index comes to the device; null if the step reads the layer
  /// there.
  std::shared_ptr<Link> index_link() const;

  // A pass, in this order:
  /// Before a prefill pass: its earlier tokens are on the device, unless only pinned ones are read.
  void begin_prompt(LedgerEntry& ledger);
  /// Appends tokens, whose rows are to be written next.
  void extend(std::span<const std::int32_t> positions);
  /// Where the rows of the last `rows` tokens are to be written in a prompt.
  AppendPlan prompt_rows(int rows);
  /// The same for the token of a decode step.  answer: tokens of the answer so far.
  /// @throws Error (runtime) if more is pinned than was promised (WorkingSet::begin_step).
  AppendPlan step_row(const PinnedSlots& pinned, int answer, LedgerEntry& ledger);
  /// Where the rows of the last `rows` tokens are to be written if only pinned tokens are read.
  AppendPlan pinned_rows(std::span<const std::int32_t> positions);
  /// After the rows were written.
  void written(const AppendPlan& plan, int rows, LedgerEntry& ledger);
  /// Waits until the host has all rows that steps of a working set have written.
  void settle();
  /// The same of a layer of which only pinned tokens are read.
  void settle_pinned();
  /// What the rows of a prompt, or of a step that selects nothing, read.
  Readable readable();
  /// Starts to bring what a step selected to the device.  all: the step reads every token.
  /// @throws Error (runtime) if that is more than was promised (WorkingSet::make_room).
  Readable fetch(const SlotLists& selected, bool all, const PinnedSlots& pinned, int answer,
                 LedgerEntry& ledger, const WorkingSet::Rebuild& rebuild, const ForEach& for_each);
  /// Waits for what `fetch` has started.
  void await_fetch();
  /// After a step's attention.
  void end_step(LedgerEntry& ledger);

  // What is pinned, where only pinned tokens are read:
  /// The pinned layer if it holds other ranges than these; null if it holds them, or there is none.
  PinnedLayer* to_repin(std::span<const SlotRange> pinned);

  // Where tokens are after a prompt:
  /// A copy of all tokens in host memory; only those that are not there yet are copied.
  std::shared_ptr<HostCopy> copy_to_host();
  /// From now on the host's tokens are the layer's.
  void move_to(const HostCopy& host) { sets_ = host.sets; }
  /// Steps read the device; a copy in host memory is dropped.
  void stay_on_device();
  /// Steps read a working set, which begins with the pinned ones of these tokens.
  /// from_host: the tokens will be in host memory.
  void use_working_set(const Residency::Options& options, const DeviceNeeds& needs,
                       const PinnedSlots& pinned, bool from_host);
  /// Prompts and steps read the pinned tokens.
  void use_pinned(std::span<const SlotRange> pinned);
  /// While an answer is decoded: what the last step read of a layer on the device, which a working
  /// set takes over (`move_in_answer`).
  void remember_read(const SlotLists& selected);
  /// Moves a layer to host memory between two steps.
  void move_in_answer(const Residency::Options& options, const DeviceNeeds& needs,
                      const PinnedSlots& pinned, LedgerEntry& ledger);

  /// Takes over other sets, as those of a prefix that is shared.
  void assign(std::span<const KvHeadCache> sets) { sets_.assign(sets.begin(), sets.end()); }
  /// After an eviction: slots are those of other tokens now.
  void forget_slots();
  /// Removes all tokens at or after `position`.
  void truncate(std::int32_t position);

  std::int64_t resident_slots() const;  ///< of all sets, on the device
  std::int64_t added_slots() const;     ///< of working sets, beyond what was promised

 private:
  struct OnDevice {
    std::vector<KvHeadCache> host;  ///< during a prompt: the tokens before it, in host memory
    SlotLists last_read;
  };
  template <typename T>
  T* in() {
    return std::get_if<T>(&where_);
  }
  template <typename T>
  const T* in() const {
    return std::get_if<T>(&where_);
  }

  std::shared_ptr<const KvStorage> storage_;
  std::vector<KvHeadCache> sets_;
  std::variant<OnDevice, WorkingSet, PinnedLayer> where_;
  bool from_host_ = false;  ///< the working set's tokens are in host memory
};

}  // namespace turnbench
