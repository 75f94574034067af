#pragma once

#include <string>

#include "reports/pivot.h"

namespace turnbench {

/// The p-value up to which a difference is shaded.
constexpr double kShadedP = .05;

/// A table as HTML, with its caption hidden from view.  `heading`: id of the heading above it.
/// Every entry has the numbers of the Markdown report; `<data>` has the exact mean, by which the
/// script sorts.
std::string table_html(const Pivot& pivot, const std::string& heading);

/// The text below a table.
std::string table_notes_html(const Pivot& pivot);

}  // namespace turnbench
