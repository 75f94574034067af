#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace turnbench {

/// `source` itself if it is no directory; otherwise the first of `names` that is there in it.
/// Refuses a directory that has none of them.
std::filesystem::path find_source_file(const std::filesystem::path& source,
                                       std::span<const std::string> names);

}  // namespace turnbench
