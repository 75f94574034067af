#include "inference/ledger.h"

namespace turnbench {

LedgerEntry& LedgerEntry::operator+=(const LedgerEntry& other) {
  index_bytes += other.index_bytes;
  index_bits += other.index_bits;
  kv_fetch_bytes += other.kv_fetch_bytes;
  cache_fill_bytes += other.cache_fill_bytes;
  prefill_bytes += other.prefill_bytes;
  writeback_bytes += other.writeback_bytes;
  hits += other.hits;
  misses += other.misses;
  evictions += other.evictions;
  return *this;
}

LedgerEntry Ledger::total_of_step(std::size_t step) const {
  LedgerEntry out;
  for (std::size_t l = 0; l < layers_; ++l) out += entries_[step * layers_ + l];
  return out;
}

LedgerEntry Ledger::total() const {
  LedgerEntry out;
  for (const LedgerEntry& e : entries_) out += e;
  return out;
}

}  // namespace turnbench
