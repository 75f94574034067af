#pragma once

#include <filesystem>
#include <string_view>

namespace turnbench {

/// The first line of html and svg (after the doctype) and of tex, by which `is_report` recognizes
/// them.
inline constexpr std::string_view kMarkupMark = "<!-- turnbench report -->\n";
inline constexpr std::string_view kLatexMark = "% turnbench report\n";

/// True if the text is a report, which a new report may overwrite.  Recognizes html, tex and svg by
/// their mark, md by its heading and the caption under its tables (unless more than the description
/// is between them, or a second heading follows), csv by a column X followed by "X low", "X high",
/// "X n" and "X failed", json by "experiment" and "cells", comparisons of methods by "experiment"
/// and "parts" (json), and leaderboards by "leaderboards" (json) and their first columns (csv).
/// True for empty text.
bool is_report(std::string_view text);

/// Writes a report to a file, as `write_file`.
/// @throws Error (input) if the file exists and is no report, unless `force`; or if it is a store.
void write_report(const std::filesystem::path& path, std::string_view report, bool force);

}  // namespace turnbench
