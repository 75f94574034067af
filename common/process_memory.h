#pragma once

#include <cstddef>

namespace turnbench {

/// Resident set size of this process in bytes: now, and its maximum so far.
std::size_t resident_bytes();
std::size_t peak_resident_bytes();

}  // namespace turnbench
