#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "inference/kv/kv_cache.h"
#include "inference/kv/ledger.h"
#include "inference/kv/link.h"
#include "inference/kv/slot_copy.h"

namespace turnbench {

/// Device copy of exactly the pinned tokens of an offloaded layer, in ascending order, for policies
/// that read only these (SelectionTraits::reads_pinned_only).  New tokens extend the last range.
/// The other ranges are transferred from the host when the policy changes them; all except the
/// first one are replaced together.
class PinnedLayer {
 public:
  /// Copies the tokens `pinned` of `sets`, which are still on the device, into pages of `device`.
  PinnedLayer(const std::shared_ptr<KvPool>& device, std::span<const KvHeadCache> sets,
              std::span<const SlotRange> pinned, std::shared_ptr<Link> link);
  /// Forks the layer: waits for transfers in flight; pages are shared until one side writes.
  PinnedLayer(const PinnedLayer& other);
  PinnedLayer& operator=(const PinnedLayer&) = delete;
  ~PinnedLayer();

  /// What attention reads of each KV set.
  std::span<const KvHeadCache> sets() const { return sets_; }
  std::span<KvHeadCache> sets() { return sets_; }

  /// Whether `pinned` equals the current ranges, except that its last one may be longer.
  bool is_extended_by(std::span<const SlotRange> pinned) const;
  /// Removes all ranges except the first one, which stays if `pinned` contains it.  Returns the
  /// number of ranges left.
  std::size_t drop_ranges(std::span<const SlotRange> pinned);
  /// After `drop_ranges`: adds slots for the tokens of a range that are before host slot `end`.
  /// Appends the copies of their rows from `host` to `copies`.
  void add_range(const SlotRange& range, std::int32_t end, std::span<const KvHeadCache> host,
                 std::vector<Copy>& copies);
  /// Makes `settle` wait for these copies, too.
  void expect(Link::Ticket ticket) { last_ = std::max(last_, ticket); }
  /// Appends tokens, whose rows must then be written.  Returns the first new slot in each set.
  std::vector<std::int32_t> extend(std::span<const std::int32_t> positions);
  /// Copies the last `rows` rows to the last slots of the host's sets.
  void write_back(std::span<KvHeadCache> host, int rows, LedgerEntry& ledger);
  /// Waits for all transfers so far.
  void settle();

  /// Removes the tokens from host slot `tokens` on.
  void truncate(std::int32_t tokens);

 private:
  std::vector<KvHeadCache> sets_;
  std::vector<SlotRange> ranges_;  // pinned now
  std::shared_ptr<Link> link_;
  Link::Ticket last_ = 0;
};

}  // namespace turnbench
