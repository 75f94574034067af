#pragma once

#include <filesystem>
#include <functional>

#include "common/json.h"

namespace turnbench {

/// Calls `visit` for the JSON document on each line of a jsonl file; the views name it "FILE:LINE".
/// Memory is needed for the longest line only.  Skips blank lines, and a byte order mark at the
/// start of the file.  Lines may end with CR LF.
/// @throws Error (input) for invalid JSON, a byte order mark elsewhere, and a file without lines.
void for_each_json_line(const std::filesystem::path& path,
                        const std::function<void(const JsonView&)>& visit);

}  // namespace turnbench
