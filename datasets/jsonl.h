#pragma once

#include <filesystem>
#include <functional>

#include "common/json.h"

namespace turnbench {

/// Calls `take` for the document of every line of a jsonl file; the views name it "FILE:LINE".
/// Streams: memory for the longest line alone.  Skips a byte order mark in front of the first line;
/// refuses it elsewhere, what is not JSON, blank lines and a file without lines.
void for_each_json_line(const std::filesystem::path& path,
                        const std::function<void(const JsonView&)>& take);

}  // namespace turnbench
