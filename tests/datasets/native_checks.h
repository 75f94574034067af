#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/text.h"
#include "datasets/catalog.h"
#include "longbench_samples.h"

namespace turnbench::test {

/// The directory of the real files of all collections.  They are not part of the project and may be
/// absent.
std::filesystem::path shared_data();

/// The dialogues of a dataset.  Expects that each has its own id, names the dataset and its metric,
/// and can be written and read back.
std::vector<Dialogue> load_checked(const std::string& name, const std::filesystem::path& source,
                                   const BuildOptions& options = {});

/// The error message for a file with this content; "F" replaces the file's path.
template <typename Read>
std::string refusal(const std::string& content, Read read) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.write("f.jsonl", content);
  return replace_all(message_of([&] { read(file); }), file.string(), "F");
}

#define SKIP_WITHOUT(path) \
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no real files at " << (path)

}  // namespace turnbench::test
