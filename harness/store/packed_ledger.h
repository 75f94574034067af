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

}  // namespace turnbench
