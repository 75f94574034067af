#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace turnbench {

/// Finds a dataset's file.  If `source` is a file but not a zip archive, returns it.  Otherwise
/// returns the first of `names` that exists in the directory, in an archive of the directory
/// ("data.zip/data/qasper.jsonl"), or in the archive `source`.
/// @throws Error (input) if none exists, or an archive cannot be read.
std::filesystem::path find_source_file(const std::filesystem::path& source,
                                       std::span<const std::string> names);

/// Reads a text file.
/// @throws Error (input) if it cannot be read or is not UTF-8.
std::string read_utf8_file(const std::filesystem::path& file);

}  // namespace turnbench
