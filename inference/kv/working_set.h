#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "inference/kv/device_needs.h"
#include "inference/kv/kv_cache.h"
#include "inference/kv/ledger.h"
#include "inference/kv/link.h"
#include "inference/kv/residency.h"

namespace turnbench {

/// The device part of an offloaded layer during decoding.
///
/// A working set has a fixed number of slots, which a Residency assigns.  A step transfers over the
/// link: the new token's row to the host, missing tokens that it reads to the device, and finally
/// tokens that the device cache keeps for later steps.
class WorkingSet {
 public:
  /// Makes the working set in pages of the pool `device`.  needs: the limits that the policy
  /// declares.
  WorkingSet(const Residency::Options& options, const DeviceNeeds& needs,
             const std::shared_ptr<KvPool>& device, std::shared_ptr<Link> link);
  /// Forks the working set: waits for transfers in flight; pages are shared until one side writes.
  WorkingSet(const WorkingSet& other);
  WorkingSet& operator=(const WorkingSet&) = delete;
  ~WorkingSet();

  /// Pins tokens of a prompt, copied from `sets`, which are still on the device.
  void start(std::span<const KvHeadCache> sets, const PinnedSlots& pinned);

  /// Also adds the tokens of `sets` that the last step read.  Called after `start`.
  void take_in(std::span<const KvHeadCache> sets, std::span<const std::vector<std::int32_t>> lists);

  /// The working set of each KV set.
  std::span<const KvHeadCache> sets() const { return sets_; }
  std::span<KvHeadCache> sets() { return sets_; }
  const Residency::Options& options() const { return residency_->options(); }
  /// The number of slots, over all working sets, that were added because an answer needed them.
  std::int64_t added_slots() const;

  /// Waits for the transfers of earlier steps.
  void settle();
  /// Begins a step with one new token, which is pinned and already the last one of all sets in
  /// `host`.  Returns its slot in each working set, where its rows must be written.  Makes a new
  /// working set if more tokens are pinned than fit into this one.
  /// @throws Error (runtime) if more tokens are pinned than the policy declared plus the `answer`
  /// tokens of the answer so far.
  std::vector<std::int32_t> begin_step(std::span<const KvHeadCache> host, const PinnedSlots& pinned,
                                       int answer, LedgerEntry& ledger);
  /// Copies the rows of the new token to the host.  Called after they were written on the device.
  void write_back(std::span<KvHeadCache> host, std::span<const std::int32_t> slots,
                  LedgerEntry& ledger);
  /// Makes a new working set with only the pinned tokens if a step that reads `lists` may not fit
  /// into this one.
  /// @throws Error (runtime) as `begin_step`.
  void make_room(std::span<const KvHeadCache> host,
                 std::span<const std::vector<std::int32_t>> lists, const PinnedSlots& pinned,
                 int answer, LedgerEntry& ledger);
  /// Writes the keys of tokens whose values are being transferred to the device.
  using Rebuild = std::function<void(std::span<KvHeadCache> sets, std::span<const SlotCopy>)>;
  /// Starts the transfer of the tokens of `lists` to the device (Residency::step, with `for_each`).
  /// Returns their slots in the working sets, in the same order.  With `rebuild`, only their values
  /// are transferred.  If called before `write_back`, blocks are transferred without the new token.
  std::vector<std::vector<std::int32_t>> fetch(std::span<const KvHeadCache> host,
                                               std::span<const std::vector<std::int32_t>> lists,
                                               LedgerEntry& ledger, const Rebuild& rebuild = {},
                                               const ForEach& for_each = for_each_in_order);
  /// Waits for the transfers that `fetch` started.
  void await_fetch();
  /// Starts the transfers that fill the cache for later steps.  Called after the step's attention.
  void end_step(std::span<const KvHeadCache> host, LedgerEntry& ledger);

  /// Removes the tokens of each set i from host slot tokens[i] on.
  void truncate(std::span<const std::int32_t> tokens);

 private:
  /// The number of blocks that the tokens of the longest set belong to.
  std::int64_t blocks_of(std::span<const KvHeadCache> host) const;
  /// Makes a new working set with only the pinned tokens, except the `newest` last tokens of each
  /// set.  Starts its transfers.
  void renew(const Residency::Options& options, std::span<const KvHeadCache> host, int newest,
             const PinnedSlots& pinned, LedgerEntry& ledger);
  /// Starts the transfer of the rows of `tokens` into the working sets.
  void load(std::span<const KvHeadCache> host, std::span<const SlotCopy> tokens, KeyRows keys,
            LinkUse use, std::int64_t& account);

  std::unique_ptr<Residency> residency_;
  DeviceNeeds needs_;
  std::int32_t first_slots_;  // initial slots of each working set
  std::vector<KvHeadCache> sets_;
  std::shared_ptr<Link> link_;
  Link::Ticket last_ = 0, fetched_ = 0;
  std::vector<SlotCopy> fills_;   // of the current step
  std::int32_t not_on_host_ = 0;  // newest tokens whose rows the host does not have yet
};

}  // namespace turnbench
