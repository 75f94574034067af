#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace turnbench {

/// `source` itself if it is a file but no zip archive.  Otherwise the first of `names` that is
/// there: in the directory, else in its archives ("data.zip/data/qasper.jsonl"), or in the archive.
/// Refuses a source that has none of them, and archives that cannot be read.
std::filesystem::path find_source_file(const std::filesystem::path& source,
                                       std::span<const std::string> names);

/// A file of text.  Refuses what is not UTF-8 as `require_utf8` does.
std::string read_utf8_file(const std::filesystem::path& file);

}  // namespace turnbench
