#include "inference/kv/ledger.h"

namespace turnbench {

LedgerEntry& LedgerEntry::operator+=(const LedgerEntry& other) {
  for (const LedgerField& field : kLedgerFields) this->*field.value += other.*field.value;
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
