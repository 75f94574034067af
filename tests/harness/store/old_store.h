#pragma once

#include <string>

namespace turnbench::test {

/// Replaces a store by one of an older schema (1 to 5) with the same contents, as far as that has a
/// place for them.
void make_older(const std::string& path, int version);

}  // namespace turnbench::test
