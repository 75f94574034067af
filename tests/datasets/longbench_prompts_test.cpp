// Tests of LongBench's official prompts, from its dataset2prompt.json.

#include <gtest/gtest.h>

#include "datasets/catalog.h"
#include "datasets/dialogue_io.h"
#include "longbench_samples.h"

namespace turnbench {
namespace {

using test::message_of;
using test::TemporaryDirectory;

TEST(LongBenchPrompts, AreReadFromTheirFolder) {
  const std::string json = R"({"qasper": "Read {context}\nand tell: {input}\nAnswer:"})";
  for (const char* place : {"dataset2prompt.json", "config/dataset2prompt.json"}) {
    const TemporaryDirectory directory;
    directory.write(place, json);
    const auto file = directory.write("data/qasper.jsonl", "x");
    const auto prompts = load_official_prompts(directory.path());
    ASSERT_EQ(prompts.size(), 1u) << place;
    LongBenchRecord record;
    record.context = "text";
    record.input = "{question}";
    record.answers = {"answer"};
    const Turn turn = official_dialogue("qasper", record, prompts.at("qasper")).turns.at(0);
    EXPECT_EQ(turn.instruction + turn.contexts.at(0).text + turn.question,
              "Read text\nand tell: {question}\nAnswer:");
    EXPECT_EQ(load_official_prompts(file).size(),
              std::string_view(place).starts_with("config") ? 1u : 0u);
  }
  const TemporaryDirectory directory;
  EXPECT_TRUE(load_official_prompts(directory.path()).empty());
  const auto bad = directory.write("dataset2prompt.json", R"({"qasper": "{question}"})");
  EXPECT_EQ(message_of([&] { load_official_prompts(directory.path()); }),
            bad + ": /qasper: found \"{question}\", expected {context} or {input}");
}

TEST(LongBenchPrompts, EqualTheFiles) {
  const TemporaryDirectory directory;
  const LongBenchTask& task = find_longbench_task("trec", "test");
  const auto records = test::make_records(task, 2);
  directory.write("trec.jsonl", test::to_native_line("trec", records[0]) + "\n");
  const auto load = [&] {
    return load_dialogues("trec", directory.path(), {.official_prompts = true}).at(0);
  };
  EXPECT_EQ(message_of(load), directory.path().string() +
                                  ": found no prompt of trec, expected one in "
                                  "config/dataset2prompt.json");
  directory.write("config/dataset2prompt.json", R"({"trec": "Begin.\n{context}\n{input} "})");
  const Dialogue dialogue = load();
  const Turn& turn = dialogue.turns.at(0);
  EXPECT_EQ(turn.instruction, "Begin.\n");
  ASSERT_EQ(turn.contexts.size(), 1u);
  EXPECT_EQ(turn.contexts[0].text, records[0].context);
  EXPECT_EQ(turn.question, "\n" + records[0].input + " ");
  EXPECT_EQ(turn.layout, Layout::kPlain);
  EXPECT_EQ(turn.references, records[0].answers);
  write_dialogues(directory.path() / "d.jsonl", std::vector{dialogue});
  EXPECT_EQ(to_json_line(read_dialogues(directory.path() / "d.jsonl").at(0)),
            to_json_line(dialogue));
  EXPECT_EQ(message_of([&] { with_questions_at(dialogue, Position::kBegin); }),
            "trec: found the position begin, expected end, where the official prompt has it");
  EXPECT_EQ(with_questions_at(dialogue, Position::kEnd).turns[0].layout, Layout::kPlain);
  directory.write("config/dataset2prompt.json", R"({"trec": "{input}"})");
  EXPECT_EQ(message_of(load), "trec: found the prompt \"{input}\", expected one with {context}");
  EXPECT_EQ(
      message_of([&] { load_dialogues("mt-trec", directory.path(), {.official_prompts = true}); }),
      "mt-trec: found official prompts, expected none: only LongBench's single-turn tasks and "
      "LongBench v2 have them");
}

}  // namespace
}  // namespace turnbench
