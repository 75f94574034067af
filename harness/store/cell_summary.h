#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "common/mean.h"
#include "harness/store/cell_usage.h"
#include "harness/store/sqlite.h"
#include "harness/store/truncation.h"

namespace turnbench {

/// What the tables and the status of an experiment show of a cell's records, besides scores.
struct CellSummary {
  CellUsage usage;
  Truncation truncation;
  std::map<std::string, Mean, std::less<>> counters;  ///< by name, over all records
  std::size_t whole = 0;                              ///< dialogues with all their turns
  std::size_t failed = 0;                             ///< dialogues among these with a failed turn
};

/// The summaries of cells, by key.  Summaries take long to compute and are therefore stored: those
/// that are missing are computed, and stored if the database was prepared for writing.  Triggers
/// delete the summary of a cell whose records change.
std::map<std::string, CellSummary> cell_summaries(Database& db,
                                                  const std::vector<std::string>& cells);

/// The cells whose stored summaries are not those of their records.
std::vector<std::string> wrong_summaries(const Database& db);

}  // namespace turnbench
