#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace turnbench {

/// The result of `check_store`.
struct StoreCheck {
  /// Problems of one kind.
  struct Finding {
    std::string kind;  ///< a word: "integrity", "dialogues"
    std::string what;  ///< "units with fewer turns than their dialogue"
    std::size_t count = 0;
    std::string example;  ///< one of them
  };
  std::int64_t schema_version = 0;
  std::size_t records = 0;
  std::vector<Finding> findings;
};

/// Checks the integrity of a store, which is not changed: the database file, its schema, references
/// between rows, units, dialogues and ledgers.
/// @throws Error (input) if there is no such file, or if it is not an SQLite file
StoreCheck check_store(const std::filesystem::path& path);

}  // namespace turnbench
