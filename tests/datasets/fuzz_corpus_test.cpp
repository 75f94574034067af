// The initial inputs of the datasets fuzzer (tests/fuzz/corpus/datasets) must be valid, so that
// mutations get past the first checks.  Every collection must have an input.

#include <gtest/gtest.h>

#include <set>

#include "common/file.h"
#include "datasets/catalog.h"
#include "datasets/dialogue_io.h"
#include "datasets/longbench.h"
#include "longbench_samples.h"

namespace turnbench {
namespace {

TEST(FuzzCorpus, IsAcceptedAndCoversEveryCollection) {
  const test::TemporaryDirectory directory;
  // gsm8k-cot reads its questions from a second file in the same directory.
  directory.write("test.jsonl", R"({"question": "1 + 1?", "answer": "#### 2"})");
  std::set<std::string> missing;
  for (const Dataset& dataset : all_datasets()) missing.insert(dataset.collection);
  for (const auto& entry :
       std::filesystem::directory_iterator(TURNBENCH_SOURCE_DIR "/tests/fuzz/corpus/datasets")) {
    SCOPED_TRACE(entry.path());
    const std::string text = read_file(entry.path());
    const std::size_t end = text.find('\n');
    const std::string name = text.substr(0, end);
    const std::filesystem::path file = directory.write("input.jsonl", text.substr(end + 1));
    if (name == "prompts") {
      EXPECT_NO_THROW(load_official_prompts(file));
      continue;
    }
    std::vector<Dialogue> dialogues;
    EXPECT_NO_THROW(dialogues = name == "dialogues" ? read_dialogues(file)
                                                    : load_dialogues(name, file, {.limit = 3}));
    EXPECT_FALSE(dialogues.empty());
    if (name != "dialogues") missing.erase(find_dataset(name, "corpus").collection);
  }
  missing.erase("");  // generated datasets
  EXPECT_TRUE(missing.empty()) << *missing.begin();
}

}  // namespace
}  // namespace turnbench
