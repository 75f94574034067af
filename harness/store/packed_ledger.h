#pragma once

#include <string>
#include <string_view>

#include "inference/kv/ledger.h"

namespace turnbench {

/// Packs a ledger into bytes for the store.  The transfers of a layer change little between steps,
/// so that differences between steps, and runs of equal steps, take a few bytes each.
std::string pack(const Ledger& ledger);

/// @throws Error (input) if the bytes are not a packed ledger; the message begins with `where`.
Ledger unpack_ledger(std::string_view bytes, std::string_view where);

/// The packed ledger of a record in a store.
struct BoundedLedger {
  std::string data;
  std::string dropped;  ///< what was left out because of its size: "layers", "steps"; or empty
};

/// Bounds the size of a packed ledger: the transfers of a step are summed over the layers if it has
/// more than `most` bytes, and the last steps are left out if that is still too large.
BoundedLedger bound(std::string packed, std::size_t most = std::size_t{1} << 20);

}  // namespace turnbench
