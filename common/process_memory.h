#pragma once

#include <cstddef>

namespace turnbench {

/// Resident set size of this process in bytes: now, and its maximum so far.
std::size_t resident_bytes();
std::size_t peak_resident_bytes();
/// The part of `resident_bytes` whose content is in files, such as the program.  Processes share
/// it.
std::size_t resident_file_bytes();

}  // namespace turnbench
