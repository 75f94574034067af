#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace turnbench {

/// `source` itself if it is no directory; otherwise the first of `names` that is there in it, or in
/// a zip archive in it ("data.zip/data/qasper.jsonl"). Refuses a directory that has none of them.
std::filesystem::path find_source_file(const std::filesystem::path& source,
                                       std::span<const std::string> names);

/// A file of text.  Refuses what is not UTF-8 as `require_utf8` does.
std::string read_text(const std::filesystem::path& file);

}  // namespace turnbench
