#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/entry_columns.h"
#include "reports/pivot.h"

namespace turnbench {

/// A field of a table: LaTeX, and its width as `latex_width` counts.
struct LatexField {
  std::string text;
  double width = 0;
};

/// How the numbers of an entry are divided into lines.
enum class EntryLines {
  kWide,    ///< a line for the mean with its interval, each difference, and the published number
  kMedium,  ///< p below the difference
  kNarrow   ///< also intervals below their means
};

/// The lines of an entry; at least one, which may be empty.
std::vector<LatexField> latex_entry(const std::optional<Pivot::Entry>& entry,
                                    const EntryColumns& columns, EntryLines lines);

}  // namespace turnbench
