// Checks the levels in the table of docs/architecture.md: a file includes only files of its own
// folder or of lower levels.

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "common/file.h"
#include "common/text.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

/// Folder (with its slash) -> level.
using Levels = std::map<std::string, int>;

Levels levels_of(const std::string& page) {
  Levels out;
  const std::regex row("^\\| (-?[0-9]+) \\| (`[a-z/`, ]+`) \\|"), name("`([a-z/]+)`");
  for (const std::string& line : split(page, "\n")) {
    std::smatch found;
    if (!std::regex_search(line, found, row)) continue;
    const std::string folders = found[2];
    for (std::sregex_iterator it(folders.begin(), folders.end(), name), end; it != end; ++it)
      out[(*it)[1]] = std::stoi(found[1]);
  }
  return out;
}

/// The innermost folder of the table that contains a file; the end iterator if there is none.
Levels::const_iterator folder_of(const Levels& levels, const std::string& file) {
  auto out = levels.end();
  for (auto it = levels.begin(); it != levels.end(); ++it) {
    const bool longer = out == levels.end() || it->first.size() > out->first.size();
    if (file.starts_with(it->first) && longer) out = it;
  }
  return out;
}

/// The quoted file names of the #include lines.
std::vector<std::string> includes_of(const std::string& text) {
  std::vector<std::string> out;
  const std::regex include("^#include \"([^\"]+)\"");
  for (const std::string& line : split(text, "\n")) {
    std::smatch found;
    if (std::regex_search(line, found, include)) out.push_back(found[1]);
  }
  return out;
}

/// The violations of a file's includes, one line each.
std::vector<std::string> faults_of(const Levels& levels, const std::string& file,
                                   const std::string& text) {
  const auto folder = folder_of(levels, file);
  if (folder == levels.end()) return {file + ": in no folder of the table"};
  std::vector<std::string> out;
  for (const std::string& include : includes_of(text)) {
    if (include.find('/') == std::string::npos) continue;  // a header of the CUDA emulation
    const auto other = folder_of(levels, include);
    if (other == levels.end()) {
      out.push_back(file + ": includes " + include + ", which is in no folder of the table");
    } else if (other != folder && other->second >= folder->second) {
      out.push_back(file + ": includes " + include + ", which is not of a lower level");
    }
  }
  return out;
}

TEST(Includes, FollowTheLevelsOfTheArchitecturePage) {
  const fs::path root = TURNBENCH_SOURCE_DIR;
  const Levels levels = levels_of(read_file(root / "docs/architecture.md"));
  ASSERT_GE(levels.size(), 17u);
  std::size_t files = 0;
  for (const char* top : {"cli", "common", "datasets", "harness", "inference", "judges", "methods",
                          "metrics", "probes", "reports", "runners", "text"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string extension = entry.path().extension();
      if (extension != ".cpp" && extension != ".h" && extension != ".cu") continue;
      ++files;
      const std::string file = fs::relative(entry.path(), root);
      for (const std::string& fault : faults_of(levels, file, read_file(entry.path())))
        ADD_FAILURE() << fault;
    }
  }
  EXPECT_GT(files, 300u);
}

// methods/ is one level of the table, but parts that methods share must not depend on methods.
TEST(Includes, PartsOfMethodsIncludeNoMethod) {
  const fs::path root = TURNBENCH_SOURCE_DIR;
  for (const auto& entry : fs::directory_iterator(root / "methods/parts")) {
    for (const std::string& include : includes_of(read_file(entry.path()))) {
      EXPECT_FALSE(include.starts_with("methods/") && include.find("/parts/") == include.npos &&
                   include != "methods/method.h")
          << entry.path().filename() << " includes " << include;
    }
  }
}

// Its header takes seconds to compile, and defines macros.
TEST(Includes, OneFileIncludesCppHttplib) {
  const fs::path root = TURNBENCH_SOURCE_DIR;
  std::set<std::string> files;
  for (const char* top : {"cli", "reports", "judges", "runners", "harness", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string extension = entry.path().extension();
      if (extension != ".cpp" && extension != ".h") continue;
      if (read_file(entry.path()).find("\n#include <httplib.h>") != std::string::npos)
        files.insert(fs::relative(entry.path(), root));
    }
  }
  EXPECT_EQ(files, std::set<std::string>{"cli/server/http_server.cpp"});
}

TEST(Includes, UpwardAndSidewaysIncludesAreDetected) {
  const Levels levels =
      levels_of("| 2 | `upper/` | x |\n| 1 | `left/`, `right/` | x |\n| 0 | `left/deep/` | x |\n");
  ASSERT_EQ(levels.size(), 4u);
  const auto faults = [&](const std::string& file, const std::string& include) {
    return faults_of(levels, file, "// text\n#include \"" + include + "\"\n").size();
  };
  EXPECT_EQ(faults("upper/a.h", "left/b.h"), 0u);
  EXPECT_EQ(faults("left/a.h", "left/b.h"), 0u);
  EXPECT_EQ(faults("left/a.h", "left/deep/b.h"), 0u);
  EXPECT_EQ(faults("left/a.h", "upper/b.h"), 1u);
  EXPECT_EQ(faults("left/a.h", "right/b.h"), 1u);
  EXPECT_EQ(faults("left/deep/a.h", "left/b.h"), 1u);
  EXPECT_EQ(faults("left/a.h", "elsewhere/b.h"), 1u);
  EXPECT_EQ(faults("elsewhere/a.h", "left/b.h"), 1u);
}

}  // namespace
}  // namespace turnbench
