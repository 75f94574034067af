#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace turnbench {

/// The transfers of one layer of a sequence between host and device in one step, and the hits and
/// misses of its selections.  Bytes are those that the Link counted.
struct LedgerEntry {
  std::int64_t index_bytes = 0;       ///< index data for the selection
  std::int64_t index_bits = 0;        ///< minimal size of these data in bits: 6 for a 6-bit code
  std::int64_t kv_fetch_bytes = 0;    ///< keys and values that the step reads
  std::int64_t cache_fill_bytes = 0;  ///< keys and values for the device cache, for later steps
  std::int64_t prefill_bytes = 0;     ///< keys and values of earlier tokens that a prefill reads
  std::int64_t writeback_bytes = 0;   ///< keys and values of new tokens, to the host
  /// Selected tokens that were on the device before the step (hits) or were not (misses), counted
  /// once for all lists that share a device slot.  Pinned tokens are neither.
  std::int64_t hits = 0, misses = 0;
  std::int64_t evictions = 0;  ///< blocks that left the device cache

  std::int64_t bytes() const {
    return index_bytes + kv_fetch_bytes + cache_fill_bytes + prefill_bytes + writeback_bytes;
  }
  LedgerEntry& operator+=(const LedgerEntry& other);
  bool operator==(const LedgerEntry&) const = default;
};

/// A number of an entry and its name in stores and tables.
struct LedgerField {
  const char* name;
  std::int64_t LedgerEntry::*value;
};
inline constexpr LedgerField kLedgerFields[] = {
    {"index_bytes", &LedgerEntry::index_bytes},
    {"index_bits", &LedgerEntry::index_bits},
    {"kv_fetch_bytes", &LedgerEntry::kv_fetch_bytes},
    {"cache_fill_bytes", &LedgerEntry::cache_fill_bytes},
    {"prefill_bytes", &LedgerEntry::prefill_bytes},
    {"writeback_bytes", &LedgerEntry::writeback_bytes},
    {"hits", &LedgerEntry::hits},
    {"misses", &LedgerEntry::misses},
    {"evictions", &LedgerEntry::evictions}};

/// The entries of the prefill of a turn and of all its decode steps: [1 + steps][layers].
class Ledger {
 public:
  /// Begins a new step of a model with `layers` layers.  The first one is the prefill.
  void begin_step(int layers) {
    layers_ = static_cast<std::size_t>(layers);
    entries_.resize(entries_.size() + layers_);
  }
  std::size_t steps() const { return layers_ == 0 ? 0 : entries_.size() / layers_; }
  /// The entry of a layer in the current step.
  LedgerEntry& now(int layer) {
    return entries_[entries_.size() - layers_ + static_cast<std::size_t>(layer)];
  }
  const LedgerEntry& at(std::size_t step, int layer) const {
    return entries_[step * layers_ + static_cast<std::size_t>(layer)];
  }
  LedgerEntry& at(std::size_t step, int layer) {
    return entries_[step * layers_ + static_cast<std::size_t>(layer)];
  }
  LedgerEntry total_of_step(std::size_t step) const;
  LedgerEntry total() const;
  void clear() { entries_.clear(); }
  std::size_t layers() const { return layers_; }

 private:
  std::size_t layers_ = 0;
  std::vector<LedgerEntry> entries_;
};

}  // namespace turnbench
