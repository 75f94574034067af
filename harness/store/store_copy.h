#pragma once

#include <cstddef>
#include <filesystem>

namespace turnbench {

/// Copies a store as it is at one moment, also while programs write it or after one was killed.
/// `to` is replaced in one step, when the copy is on its disk: at every time it is the old store,
/// or the new one.  The copy has no claims of
/// running programs, and a rollback journal, so that it is complete in itself and can be
/// read on every file system.  Returns its number of records.
/// @throws Error (input) if `from` is no store, or `to` is `from` or a store that a program has
/// open
/// @throws Error (runtime) if the copy cannot be written; `to` is as before
std::size_t copy_store(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace turnbench
