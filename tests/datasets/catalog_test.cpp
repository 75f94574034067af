#include "datasets/catalog.h"

#include <gtest/gtest.h>

#include <set>

#include "common/error.h"
#include "datasets/dialogue_stats.h"
#include "longbench_samples.h"

namespace turnbench {
namespace {

TEST(Catalog, ContainsEveryFormOfEveryLongBenchTask) {
  std::set<std::string> names;
  for (const Dataset& dataset : all_datasets()) {
    EXPECT_TRUE(names.insert(dataset.name).second) << dataset.name;
    EXPECT_FALSE(dataset.description.empty());
    EXPECT_FALSE(dataset.task.empty());
    EXPECT_FALSE(dataset.metric.empty());
    const bool native =
        dataset.needs_source && dataset.collection != "longbench" && !dataset.has_length;
    EXPECT_EQ(dataset.turns > 0, !native) << dataset.name;
    EXPECT_EQ(&find_dataset(dataset.name, "test"), &dataset);
  }
  for (const LongBenchTask& task : longbench_tasks()) {
    const std::string name(task.name);
    EXPECT_TRUE(names.contains(name));
    EXPECT_TRUE(names.contains("mt-" + name));
    EXPECT_EQ(names.contains(name + "_e"), task.in_longbench_e);
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

TEST(Catalog, GeneratedSetsComeInBothForms) {
  for (const char* name :
       {"needle", "multi-needle", "needle-reasoning", "passkey", "number-retrieval", "kv-retrieval",
        "variable-tracking", "common-words", "frequent-words"}) {
    const std::string several = std::string("mt-") + name;
    const auto one = load_dialogues(name, "", {.limit = 3});
    const auto three = load_dialogues(several, "", {.limit = 2});
    ASSERT_EQ(one.size(), 3u);
    ASSERT_EQ(three.size(), 2u);
    EXPECT_EQ(one[0].dataset, name);
    EXPECT_EQ(one[0].turns.size(), 1u);
    EXPECT_EQ(three[0].dataset, several);
    EXPECT_EQ(three[0].turns.size(), 3u);
    EXPECT_EQ(load_dialogues(several, "", {.turns = 2, .limit = 1})[0].turns.size(), 2u);
    for (const auto* dialogues : {&one, &three}) {
      const Dataset& dataset = find_dataset((*dialogues)[0].dataset, "test");
      EXPECT_EQ((*dialogues)[0].metric, dataset.metric);
      EXPECT_EQ((*dialogues)[0].task, dataset.task);
      EXPECT_TRUE(dataset.has_length);
    }
    EXPECT_EQ(test::message_of([&] { load_dialogues(name, "", {.turns = 2}); }),
              fmt::format("{}: found 2 turns, expected 1, or the dataset mt-{}", name, name));
  }
}

TEST(Catalog, RefusesOptionsThatADatasetDoesNotHave) {
  const auto refusal = [](const char* name, const char* source, const BuildOptions& options) {
    return test::message_of([&] { load_dialogues(name, source, options); });
  };
  EXPECT_EQ(refusal("qasper", "x", {.length = 500}),
            "qasper: found the length 500, expected none: it is read from files");
  for (const char* name : {"tiny-fact", "mt-qasper", "multi-needle", "common-words"}) {
    const char* source = std::string_view(name) == "mt-qasper" ? "x" : "";
    EXPECT_EQ(
        refusal(name, source, {.depth = 50}),
        fmt::format(
            "{}: found the depth 50, expected none: the dataset has no single place to choose",
            name));
  }
  EXPECT_EQ(refusal("kv-retrieval", "essays", {}),
            "kv-retrieval: found the source \"essays\", expected none: it is generated");
  EXPECT_EQ(refusal("gsm8k", "x", {.fields = {{"a", "b"}}}),
            "gsm8k: found names of fields, expected none: its files have their own");
  EXPECT_EQ(refusal("gsm8k", "x", {.turns = 2}),
            "gsm8k: found 2 turns, expected none: its records have their own");
}

}  // namespace
}  // namespace turnbench
