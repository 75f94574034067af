// The results in experiments/results/, from which tables of the documents are made.

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/json.h"
#include "harness/store/integrity.h"
#include "harness/store/store.h"
#include "tests/experiments/experiment_files.h"

namespace turnbench::test {
namespace {

namespace fs = std::filesystem;

const fs::path kExperimentFolder = fs::path(TURNBENCH_SOURCE_DIR) / "experiments";

std::vector<fs::path> recorded_results() {
  std::vector<fs::path> out;
  for (const fs::path& file : list_directory(kExperimentFolder / "results"))
    if (file.extension() == ".zst") out.push_back(file);
  return out;
}

/// The text of each manifest in the folders of experiments/, by its name.
std::map<std::string, std::string> manifests() {
  std::map<std::string, std::string> out;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kExperimentFolder)) {
    if (entry.path().extension() != ".json") continue;
    std::string text = read_file(entry.path());
    const Json json = parse_json(text, entry.path().string());
    if (json.is_object() && json.contains("name")) out[json["name"]] = std::move(text);
  }
  return out;
}

TEST(RecordedResults, AreThoseOfTheManifests) {
  const std::map<std::string, std::string> known = manifests();
  const std::vector<fs::path> files = recorded_results();
  ASSERT_FALSE(files.empty());
  for (const fs::path& file : files) {
    const std::string name = file.stem().stem().string();
    ASSERT_TRUE(known.contains(name)) << file;
    const Store store = Store::open(file);
    EXPECT_EQ(store.experiments(), std::vector<std::string>{name});
    EXPECT_EQ(store.manifest(name), known.at(name)) << file << ": run the changed manifest";
    EXPECT_TRUE(store.failures(name).empty()) << file;
    EXPECT_FALSE(store.scores(name).empty()) << file;
  }
}

TEST(RecordedResults, HaveNoDefects) {
  for (const fs::path& file : recorded_results()) {
    const StoreCheck check = check_store(file);
    EXPECT_TRUE(check.findings.empty()) << file << ": " << check.findings.front().example;
    EXPECT_LE(fs::file_size(file), 1'000'000u) << file;
  }
}

TEST(RecordedResults, AreDescribed) {
  const std::string page = read_file(kExperimentFolder / "results" / "README.md");
  for (const fs::path& file : recorded_results())
    EXPECT_NE(page.find("| `" + file.filename().string() + "` |"), std::string::npos) << file;
}

}  // namespace
}  // namespace turnbench::test
