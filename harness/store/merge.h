#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace turnbench {

/// What `merge_stores` did.  A unit is one dialogue in one cell, with all its turns.
struct MergeSummary {
  struct OfStore {
    std::string path;
    std::size_t units = 0;        ///< units of the store
    std::size_t added = 0;        ///< were not there
    std::size_t equal = 0;        ///< were there with the same results, or failed in both
    std::size_t replaced = 0;     ///< replaced a unit that had failed
    std::size_t failed_lost = 0;  ///< failed, and gave way to results that were there
    std::size_t scores = 0, judgements = 0;  ///< added to units that were there
  };
  std::vector<OfStore> stores;
  std::vector<std::string> notes;  ///< one line each
  std::size_t units = 0;           ///< in the merged store
};

/// Adds everything in `stores` to the store `out`, which is created if it does not exist.  Units of
/// equal results are kept once.  One transaction: after an error, or if the process is killed,
/// `out` is as before.
/// @throws Error (input) if a store is missing or unusable, or is `out` itself
/// @throws Error (runtime) if two stores have different results of a unit, other plans of an
/// experiment, or results of other sources
MergeSummary merge_stores(const std::filesystem::path& out,
                          const std::vector<std::filesystem::path>& stores);

}  // namespace turnbench
