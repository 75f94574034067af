#pragma once

#include <string>
#include <vector>

namespace turnbench {

/// What an entry of a table shows in Markdown and LaTeX.
struct EntryColumns {
  bool mean = true, interval = true, difference = true, published = true;
};

/// The names of all columns, in the order in which entries show them.
const std::vector<std::string>& entry_column_names();

/// "mean,interval" as columns.
/// @throws Error (input) for unknown, repeated or no names; the message names --columns.
EntryColumns parse_entry_columns(const std::string& text);

}  // namespace turnbench
