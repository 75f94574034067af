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
#include "inference/kv/residency.h"

namespace turnbench {

/// The part on the device of one layer whose keys and values are in host memory, where prompts and
/// steps read the pinned tokens and no others (SelectionPolicy::reads_pinned_only): exactly these
/// tokens, in their order.  The last range grows by the rows that are computed; the other ranges
/// come from the host, all but the first one together, when the policy changes them.
class PinnedLayer {
 public:
  /// The tokens `pinned` of a layer that the device still has in `sets`, in pages of `device`.
  PinnedLayer(const std::shared_ptr<KvPool>& device, std::span<const KvHeadCache> sets,
              std::span<const SlotRange> pinned, std::shared_ptr<Link> link);
  /// For a fork.  Waits for copies in flight; pages are shared until one side writes.
  PinnedLayer(const PinnedLayer& other);
  PinnedLayer& operator=(const PinnedLayer&) = delete;
  ~PinnedLayer();

  /// What attention reads, for each KV set.
  std::span<const KvHeadCache> sets() const { return sets_; }
  std::span<KvHeadCache> sets() { return sets_; }

  /// Whether these are the ranges that are held, perhaps with more tokens in the last one.
  bool goes_on_with(std::span<const SlotRange> pinned) const;
  /// Lets go of everything but the first range, if that is held.  Returns how many ranges are left.
  std::size_t let_go(std::span<const SlotRange> pinned);
  /// After `let_go`: makes slots for the tokens of a range before host slot `end`.  Appends to
  /// `copies` those that bring their rows from `host`.
  void add_range(const SlotRange& range, std::int32_t end, std::span<const KvHeadCache> host,
                 std::vector<Copy>& copies);
  /// `settle` is to wait for these copies too.
  void expect(Link::Ticket ticket) { last_ = std::max(last_, ticket); }
  /// Appends tokens, whose rows are then to be written.  Returns their first slot in each set.
  std::vector<std::int32_t> extend(std::span<const std::int32_t> positions);
  /// Copies the last `rows` rows to the host, whose last they are too.
  void write_back(std::span<KvHeadCache> host, int rows, LedgerEntry& ledger);
  /// Waits for the copies so far.
  void settle();

  /// Forgets the tokens from host slot `tokens` on.
  void truncate(std::int32_t tokens);

 private:
  std::vector<KvHeadCache> sets_;
  std::vector<SlotRange> ranges_;  // that are held
  std::shared_ptr<Link> link_;
  Link::Ticket last_ = 0;
};

}  // namespace turnbench
