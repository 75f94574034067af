#pragma once

#include <cstddef>
#include <filesystem>

namespace turnbench {

/// What a copy leaves out.
struct CopyOptions {
  bool without_texts = false;  ///< instructions, contexts, questions and answer prefixes
  bool without_paths = false;  ///< folders of manifests, models and files
};

/// Copies a store as it is at one moment, also while programs write it or after one was killed.
/// `to` is replaced in one step, when the copy is on its disk: at every time it is the old store,
/// or the new one.  Links are followed.  The copy has no claims of running programs, and a rollback
/// journal, so that it is complete in itself and can be read on every file system.  If the name of
/// `to` ends in .zst, the copy is compressed, and can only be read.  Returns its number of records.
/// @throws Error (input) if `from` is no store, or `to` is `from`, a store that a program has open,
/// or no regular file
/// @throws Error (runtime) if the copy cannot be written; `to` is as before
std::size_t copy_store(const std::filesystem::path& from, const std::filesystem::path& to,
                       const CopyOptions& options = {});

}  // namespace turnbench
