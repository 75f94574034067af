#pragma once

#include <filesystem>
#include <string_view>

namespace turnbench {

/// How html and svg (behind a doctype) and tex begin, so that a later report knows them.
inline constexpr std::string_view kMarkupMark = "<!-- turnbench report -->\n";
inline constexpr std::string_view kLatexMark = "% turnbench report\n";

/// Whether text is a report, which another one may replace: html, tex and svg by their mark, md by
/// its heading and the caption under its tables, csv by a column X with "X low", "X high", "X n"
/// and "X failed" beside it, json by "experiment" and "cells".  Nothing at all counts as well.
bool is_report(std::string_view text);

/// Writes a report to a file.  Refuses to replace one that is no report, unless `force`; devices
/// and pipes are written to as they are.
void write_report(const std::filesystem::path& path, std::string_view report, bool force);

}  // namespace turnbench
