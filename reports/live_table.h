#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/store/store.h"

namespace turnbench {

/// A compact table of the means so far, for a terminal: methods x positions of the question, or x
/// datasets if there is one position.  An entry is the mean over the cells that have scores.  At
/// most `rows` lines of at most `columns` characters; empty if there are no scores yet.
std::vector<std::string> live_table(const Store& store, const std::string& experiment,
                                    std::size_t rows, std::size_t columns);

/// At most `columns` characters of a line, with invisible characters escaped; "…" marks a cut.
std::string terminal_line(const std::string& text, std::size_t columns);

}  // namespace turnbench
