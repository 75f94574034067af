#pragma once

#include <array>
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

/// The page pools of a stage and the links between them, shared by the layers of the stage.
struct KvStorage {
  std::shared_ptr<KvPool> device;  ///< in the memory of the stage's backend
  std::shared_ptr<KvPool> host;    ///< in host memory, of the same layout
  /// In host memory, of the other layout: with pre-RoPE keys if `host` stores none, without them if
  /// it does.
  std::shared_ptr<KvPool> other_host;
  std::shared_ptr<Link> link;    ///< between host and device
  std::shared_ptr<Link> within;  ///< from device to device
};

/// Lists of slots: [lists][slots].
using SlotLists = std::vector<std::vector<std::int32_t>>;

/// The sets and slots of a layer that attention reads.
struct Readable {
  std::span<const KvHeadCache> sets;
  bool is_copy = false;  ///< `sets` are device copies of the selected tokens
  SlotLists slots = {};  ///< slots of these copies, [lists]; none: all slots

  /// The slots of `sets` to read.  selected: slots of the layer.  No lists: all slots.
  const SlotLists& lists(const SlotLists& selected) const { return is_copy ? slots : selected; }
};

/// Where the rows of new tokens must be written.
struct AppendPlan {
  std::span<KvHeadCache> sets;           ///< empty: unknown until the policy has pinned tokens
  std::vector<std::int32_t> first = {};  ///< the slot of the first new token in each
  bool writes_back = false;              ///< the rows must then be copied to the host
};

/// A layer's sets in host memory, and the bytes copied to create them.
struct HostCopy {
  std::vector<KvHeadCache> sets;
  std::int64_t bytes = 0;
};

/// The newest tokens of a layer that are elements, while older ones are encoded in groups
/// (GroupCodec).
struct NewestTokens {
  struct OfSet {
    int first = 0;                           ///< the slot of the first token
    std::array<int, kKvRowKinds> encoded{};  ///< by KvRow: the number of encoded rows, from slot 0
    int encoded_rows(KvRow kind) const { return encoded[static_cast<std::size_t>(kind)]; }
  };
  std::vector<KvHeadCache> elements;  ///< of each set: the tokens from its `first` slot on
  std::vector<OfSet> of;              ///< of each set
};

/// The keys and values of one layer of one sequence, in one of these states:
///   - on the device, possibly with older tokens encoded in groups; during a prompt, possibly with
///     a copy of earlier tokens in host memory;
///   - in host memory, with a working set on the device (`WorkingSet`); or on the device, with a
///     working set for tokens whose keys are rebuilt;
///   - in host memory, with the pinned tokens on the device (`PinnedLayer`).
/// Copying an object forks it: it waits for transfers in flight, and pages are shared until one
/// side writes.
class LayerKv {
 public:
  LayerKv(int kv_heads, std::shared_ptr<const KvStorage> storage);

  /// All cached tokens, as policies see them.  Slots of selections refer to these sets.
  const std::vector<KvHeadCache>& sets() const { return sets_; }
  std::vector<KvHeadCache>& sets() { return sets_; }
  const std::shared_ptr<KvPool>& pool() const { return storage_->device; }
  /// Null unless older tokens are encoded in groups.  The rows in `sets` that are not encoded are
  /// undefined.
  const NewestTokens* newest() const { return newest_ ? &*newest_ : nullptr; }
  NewestTokens* newest() { return newest_ ? &*newest_ : nullptr; }
  /// Whether steps read copies on the device: a working set, or only the pinned tokens.
  bool is_offloaded() const { return !std::holds_alternative<OnDevice>(where_); }
  const WorkingSet* working_set() const { return in<WorkingSet>(); }     ///< null: none
  const PinnedLayer* pinned_layer() const { return in<PinnedLayer>(); }  ///< null: none
  /// The link that transfers the index to the device; null if steps read the layer on the device.
  std::shared_ptr<Link> index_link() const;

  // The calls of a pass, in this order:
  /// Before a prefill pass: transfers the earlier tokens to the device, unless only pinned ones are
  /// read.
  void begin_prompt(LedgerEntry& ledger);
  /// Appends tokens.  Their rows must be written next.
  void extend(std::span<const std::int32_t> positions);
  /// Where the rows of the last `rows` tokens of a prompt must be written.
  AppendPlan prompt_rows(int rows);
  /// The same for the token of a decode step.  answer: number of tokens of the answer so far.
  /// @throws Error (runtime) if more tokens are pinned than the policy declared
  /// (WorkingSet::begin_step).
  AppendPlan step_row(const PinnedSlots& pinned, int answer, LedgerEntry& ledger);
  /// The same if only pinned tokens are read: appends the tokens at `positions` to the pinned
  /// layer.
  AppendPlan pinned_rows(std::span<const std::int32_t> positions);
  /// Must be called after the rows were written.
  void written(const AppendPlan& plan, int rows, LedgerEntry& ledger);
  /// Waits until the host has all rows that steps wrote to a working set.
  void settle();
  /// The same for a layer of which only pinned tokens are read.
  void settle_pinned();
  /// What the rows of a prompt read, or those of a step without a selection.
  Readable readable();
  /// Starts the transfer of selected tokens to the device.  all: the step reads every token.
  /// @throws Error (runtime) if the step selects more than the policy declared
  /// (WorkingSet::make_room).
  Readable fetch(const SlotLists& selected, bool all, const PinnedSlots& pinned, int answer,
                 LedgerEntry& ledger, const WorkingSet::Rebuild& rebuild, const ForEach& for_each);
  /// Waits for the transfers that `fetch` started.
  void await_fetch();
  /// Called after a step's attention.
  void end_step(LedgerEntry& ledger);

  // For layers of which only pinned tokens are read:
  /// The pinned layer if its ranges differ from `pinned`; null if they are equal, or there is none.
  PinnedLayer* to_repin(std::span<const SlotRange> pinned);

  // Placement of the tokens after a prompt:
  /// A copy of all tokens in host memory.  Only tokens that are not yet there are transferred.
  std::shared_ptr<HostCopy> copy_to_host();
  /// Replaces the sets by those in host memory.
  void move_to(const HostCopy& host) { sets_ = host.sets; }
  /// Steps will read the device; a copy in host memory is dropped.
  void stay_on_device();
  /// Steps will read a working set that starts with the pinned tokens.  from_host: the layer's
  /// tokens will be in host memory.
  void use_working_set(const Residency::Options& options, const DeviceNeeds& needs,
                       const PinnedSlots& pinned, bool from_host);
  /// Prompts and steps will read only the pinned tokens.
  void use_pinned(std::span<const SlotRange> pinned);
  /// During decoding: stores what the last step read of a layer on the device, for the working set
  /// that `offload_during_decode` creates.
  void remember_read(const SlotLists& selected);
  /// Offloads a layer between two decode steps.
  void offload_during_decode(const Residency::Options& options, const DeviceNeeds& needs,
                             const PinnedSlots& pinned, LedgerEntry& ledger);

  /// Replaces all tokens by `sets` on the device, which `storage` has in another row format.
  void convert(std::shared_ptr<const KvStorage> storage, std::vector<KvHeadCache> sets);
  /// Replaces all sets by `sets`, whose pages in `storage` will have rows encoded in groups.  All
  /// tokens are elements in `newest` until then.
  void begin_groups(std::shared_ptr<const KvStorage> storage, std::vector<KvHeadCache> sets);
  /// Replaces the sets, for example by those of a shared prefix.
  void assign(std::span<const KvHeadCache> sets) { sets_.assign(sets.begin(), sets.end()); }
  /// Must be called after an eviction, which reassigns slots.
  void forget_slots();
  /// Removes all tokens at or after `position`.
  /// @throws Error (runtime) if one of them is encoded in a group.
  void truncate(std::int32_t position);

  std::int64_t resident_slots() const;  ///< of all sets on the device
  std::int64_t added_slots() const;     ///< of working sets, beyond what the policy declared

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
  std::optional<NewestTokens> newest_;
  std::variant<OnDevice, WorkingSet, PinnedLayer> where_;
  bool from_host_ = false;  ///< the working set's tokens are in host memory
};

}  // namespace turnbench
