#pragma once

#include <cstddef>

namespace turnbench {

/// Bytes of this process that are in memory now, and at their most so far.
std::size_t resident_bytes();
std::size_t peak_resident_bytes();

}  // namespace turnbench
