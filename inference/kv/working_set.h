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

/// The part on the device of one layer whose keys and values are in host memory.
///
/// While a prompt is prefilled, that is a copy of the whole layer, which ends with the layer's pass
/// (`stage`, `retire`).  While an answer is decoded, it is a working set of fixed size, which a
/// Residency fills.  The copies of a step go over the link: the new token's row to the host, what
/// the step reads and does not find to the device, then what later steps may find there.
class WorkingSet {
 public:
  /// Makes the working set in pages of the pool `device`.  needs: what the policy promises.
  WorkingSet(const Residency::Options& options, const DeviceNeeds& needs,
             const std::shared_ptr<KvPool>& device, std::shared_ptr<Link> link);
  /// For a fork.  Waits for copies in flight; pages are shared until one side writes.
  WorkingSet(const WorkingSet& other);
  WorkingSet& operator=(const WorkingSet&) = delete;
  ~WorkingSet();

  /// Pins tokens of a prompt that the device still has in `sets`.
  void start(std::span<const KvHeadCache> sets, const PinnedSlots& pinned);

  /// Takes in what a step has read of them, too.  After `start`.
  void take_in(std::span<const KvHeadCache> sets, std::span<const std::vector<std::int32_t>> lists);

  /// The working set of each KV set.
  std::span<const KvHeadCache> sets() const { return sets_; }
  std::span<KvHeadCache> sets() { return sets_; }
  const Residency::Options& options() const { return residency_->options(); }
  /// Slots of all working sets together that were added because an answer needed them.
  std::int64_t added_slots() const;

  /// Waits for the copies of earlier steps.
  void settle();
  /// Begins a step with one new token, which all KV sets of the host, `host`, already have as their
  /// last and which is pinned.  Returns its slot in each working set, where its rows are to be
  /// written.  Makes a new working set if more tokens are pinned than this one has room for.
  /// @throws Error (runtime) if these are more than the policy promised and the `answer` tokens of
  /// the answer.
  std::vector<std::int32_t> begin_step(std::span<const KvHeadCache> host, const PinnedSlots& pinned,
                                       int answer, LedgerEntry& ledger);
  /// Copies the rows of the new token to the host, after they were written on the device.
  void write_back(std::span<KvHeadCache> host, std::span<const std::int32_t> slots,
                  LedgerEntry& ledger);
  /// Makes a new working set, with nothing but the pinned tokens, if a step that reads `lists` may
  /// find no room in this one.
  /// @throws Error (runtime) as `begin_step`.
  void make_room(std::span<const KvHeadCache> host,
                 std::span<const std::vector<std::int32_t>> lists, const PinnedSlots& pinned,
                 int answer, LedgerEntry& ledger);
  /// Writes the keys of tokens whose values are being brought to the device.
  using Rebuild = std::function<void(std::span<KvHeadCache> sets, std::span<const SlotCopy>)>;
  /// Starts to bring the tokens of `lists` (Residency::step, with `for_each`) to the device.
  /// Returns their slots in the working sets, in the same order.  If there is `rebuild`, only their
  /// values come from the host.  Before `write_back`, blocks come without the new token.
  std::vector<std::vector<std::int32_t>> fetch(std::span<const KvHeadCache> host,
                                               std::span<const std::vector<std::int32_t>> lists,
                                               LedgerEntry& ledger, const Rebuild& rebuild = {},
                                               const ForEach& for_each = for_each_in_order);
  /// Waits for what `fetch` has started.
  void await_fetch();
  /// Starts the copies of the step that later steps may profit from.  After its attention.
  void end_step(std::span<const KvHeadCache> host, LedgerEntry& ledger);

  /// Forgets tokens: those of each set i from tokens[i] on.
  void truncate(std::span<const std::int32_t> tokens);

 private:
  /// Makes a new working set, with nothing but what is pinned of the tokens but the `newest` of
  /// each set.  Starts its copies.
  void renew(const Residency::Options& options, std::span<const KvHeadCache> host, int newest,
             const PinnedSlots& pinned, LedgerEntry& ledger);
  /// Starts the copies of the rows of `tokens` into the working sets.
  void load(std::span<const KvHeadCache> host, std::span<const SlotCopy> tokens, KeyRows keys,
            LinkUse use, std::int64_t& account);

  std::unique_ptr<Residency> residency_;
  DeviceNeeds needs_;
  std::int32_t first_slots_;  // of each working set as it was made
  std::vector<KvHeadCache> sets_;
  std::shared_ptr<Link> link_;
  Link::Ticket last_ = 0, fetched_ = 0;
  std::vector<SlotCopy> fills_;   // of the current step
  std::int32_t not_on_host_ = 0;  // newest tokens whose rows the host does not have yet
};

}  // namespace turnbench
