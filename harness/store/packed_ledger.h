#pragma once

#include <string>
#include <string_view>

#include "inference/kv/ledger.h"

namespace turnbench {

/// A ledger as bytes for the store: what a layer moves hardly changes from step to step, so that
/// differences between steps, and runs of equal steps, take a few bytes each.
std::string pack(const Ledger& ledger);

/// @throws Error (input) if the bytes are not those of a ledger; `where` begins its message.
Ledger unpack_ledger(std::string_view bytes, std::string_view where);

}  // namespace turnbench
