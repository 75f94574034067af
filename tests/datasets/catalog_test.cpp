#include "datasets/catalog.h"

#include <gtest/gtest.h>

#include <set>

#include "common/error.h"
#include "datasets/dialogue_stats.h"
#include "longbench_samples.h"

namespace turnbench {
namespace {

TEST(Catalog, HoldsEveryLongBenchTaskInEveryForm) {
  std::set<std::string> names;
  for (const Dataset& dataset : all_datasets()) {
    EXPECT_TRUE(names.insert(dataset.name).second) << dataset.name;
    EXPECT_FALSE(dataset.description.empty());
    EXPECT_FALSE(dataset.task.empty());
    EXPECT_FALSE(dataset.metric.empty());
    EXPECT_GE(dataset.turns, 1);
    EXPECT_EQ(&find_dataset(dataset.name, "test"), &dataset);
  }
  for (const LongBenchTask& task : longbench_tasks()) {
    const std::string name(task.name);
    EXPECT_TRUE(names.contains(name));
    EXPECT_TRUE(names.contains("mt-" + name));
    EXPECT_EQ(names.contains(name + "_e"), task.in_e);
    EXPECT_EQ(find_dataset("mt-" + name, "test").turns, task.turns);
  }
  for (const PublishedDataset& published : published_datasets()) {
    EXPECT_TRUE(names.contains(std::string(published.name)));
  }
}

TEST(Catalog, UnknownNamesAreRefusedWithTheNearest) {
  EXPECT_EQ(test::message_of([] { find_dataset("mt-hotpot", "m.json: /datasets/0"); }),
            "m.json: /datasets/0: found the dataset \"mt-hotpot\", expected \"mt-hotpotqa\"");
  EXPECT_EQ(test::message_of([] { load_dialogues("qasper", "", {}); }),
            "qasper: found no source, expected a file or a directory");
}

TEST(Catalog, LoadsEveryFormOfATask) {
  const test::TemporaryDirectory directory;
  const LongBenchTask& task = find_longbench_task("qasper", "test");
  std::string lines;
  for (const LongBenchRecord& record : test::make_records(task, 6)) {
    lines += test::to_native_line("qasper", record) + "\n";
  }
  const auto file = directory.write("qasper.jsonl", lines);
  directory.write("qasper_e.jsonl", lines);
  EXPECT_EQ(load_dialogues("qasper", directory.path(), {}).size(), 6u);
  EXPECT_EQ(load_dialogues("qasper", file, {.limit = 2}).size(), 2u);
  EXPECT_EQ(load_dialogues("qasper_e", directory.path(), {})[0].dataset, "qasper_e");
  const auto built = load_dialogues("mt-qasper", directory.path(), {.turns = 2, .limit = 3});
  ASSERT_EQ(built.size(), 3u);
  EXPECT_EQ(built[0].turns.size(), 2u);
  EXPECT_EQ(test::message_of([&] { load_dialogues("qasper", file, {.turns = 3}); }),
            "qasper: found 3 turns, expected 1, or the dataset mt-qasper");
}

}  // namespace
}  // namespace turnbench
