#include "datasets/multi_turn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "datasets/dialogue_io.h"
#include "datasets/dialogue_stats.h"
#include "dialogue_checks.h"
#include "longbench_samples.h"
#include "tests/datasets/dialogue_text.h"

namespace turnbench {
namespace {

using test::parse_source;
using test::placed_chunks;
using test::record_named;
using test::Records;

const LongBenchTask& task_named(std::string_view name) {
  return find_longbench_task(name, "test");
}

void check_all(const LongBenchTask& task, const Records& records, const BuildOptions& options) {
  SCOPED_TRACE(task.name);
  const std::vector<Dialogue> dialogues = build_multi_turn(task, records, options);
  std::set<std::string> ids;
  for (const Dialogue& dialogue : dialogues) {
    EXPECT_TRUE(ids.insert(dialogue.id).second);
    test::check_dialogue(task, records, dialogue, options);
  }
  EXPECT_EQ(dialogues.size(), options.limit);
}

TEST(MultiTurn, InvariantsOnSyntheticRecords) {
  for (const LongBenchTask& task : longbench_tasks()) {
    const Records records = test::make_records(task, 11);
    for (std::uint64_t seed : {0, 1, 2}) {
      check_all(task, records, {.seed = seed, .limit = 12});
      check_all(task, records, {.turns = 1, .seed = seed, .limit = 5});
      check_all(task, records, {.turns = 4, .seed = seed, .limit = 5});
      check_all(
          task, records,
          {.seed = seed, .limit = 5, .max_irrelevant_paragraphs = 1, .max_irrelevant_length = 40});
    }
  }
}

TEST(MultiTurn, InvariantsOnRealRecords) {
  const auto shared = test::shared_longbench();
  if (!std::filesystem::exists(shared)) GTEST_SKIP() << "no real files at " << shared;
  int files = 0;
  for (const LongBenchTask& task : longbench_tasks()) {
    Records records;
    try {
      records = read_longbench(shared, task.name);
    } catch (const Error&) {
      continue;
    }
    ++files;
    check_all(task, records, {.seed = 5, .limit = 15});
    check_all(task, records, {.turns = 2, .seed = 6, .limit = 15});
  }
  EXPECT_EQ(files, 18);
}

TEST(MultiTurn, TheSameSeedGivesTheSameBytesOnEveryMachine) {
  std::string all;
  for (const LongBenchTask& task : longbench_tasks()) {
    all += test::lines_of(
        build_multi_turn(task, test::make_records(task, 9), {.seed = 42, .limit = 4}));
  }
  EXPECT_EQ(hash_text(all), "a04c2767ba68acc4f4823f4d325d03ab");
  const LongBenchTask& task = task_named("hotpotqa");
  const Records records = test::make_records(task, 9);
  const auto built = [&](std::uint64_t seed) {
    return test::lines_of(build_multi_turn(task, records, {.seed = seed, .limit = 4}));
  };
  EXPECT_EQ(built(1), built(1));
  EXPECT_NE(built(1), built(2));
}

TEST(MultiTurn, ALargerLimitOnlyAdds) {
  for (const char* name : {"qasper", "gov_report", "trec"}) {
    const LongBenchTask& task = task_named(name);
    const Records records = test::make_records(task, 7);
    const std::string few = test::lines_of(build_multi_turn(task, records, {.limit = 5}));
    const std::string many = test::lines_of(build_multi_turn(task, records, {.limit = 20}));
    EXPECT_TRUE(many.starts_with(few)) << name;
    EXPECT_GT(many.size(), few.size());
  }
}

TEST(MultiTurn, BuildsThePapersNumberOfDialogues) {
  for (const PublishedDataset& published : published_datasets()) {
    const LongBenchTask& task = task_named(published.name.substr(3));
    EXPECT_EQ(task.turns, published.turns) << published.name;
    const auto dialogues = build_multi_turn(task, test::make_records(task, 10), {});
    EXPECT_EQ(dialogues.size(), published.dialogues) << published.name;
  }
  EXPECT_EQ(find_published_dataset("mt-samsum")->dialogues, 199u);
  EXPECT_EQ(find_published_dataset("mt-lcc"), nullptr);
}

TEST(MultiTurn, WithoutReuseNoRecordIsAskedTwice) {
  for (const char* name : {"musique", "multi_news", "samsum"}) {
    const LongBenchTask& task = task_named(name);
    const auto dialogues =
        build_multi_turn(task, test::make_records(task, 11), {.reuse_records = false});
    const std::size_t group =
        task.grouping == Grouping::kExamples ? 1 : static_cast<std::size_t>(task.turns);
    EXPECT_EQ(dialogues.size(), 11 / group) << name;
    std::set<std::string> asked;
    for (const Dialogue& dialogue : dialogues) {
      std::set<std::string> here;
      for (const Turn& turn : dialogue.turns) here.insert(parse_source(turn.relevance[0]).record);
      for (const std::string& record : here) EXPECT_TRUE(asked.insert(record).second) << record;
    }
  }
}

TEST(MultiTurn, RecordsAreUsedAboutEquallyOften) {
  const LongBenchTask& task = task_named("hotpotqa");
  std::map<std::string, int> uses;
  for (const Dialogue& dialogue :
       build_multi_turn(task, test::make_records(task, 10), {.limit = 100})) {
    for (const Turn& turn : dialogue.turns) ++uses[parse_source(turn.relevance[0]).record];
  }
  EXPECT_EQ(uses.size(), 10u);
  for (const auto& [record, count] : uses) {
    EXPECT_GT(count, 20) << record;
    EXPECT_LE(count, 34) << record;
  }
}

TEST(MultiTurn, RelevanceVariesAsInThePaper) {
  const LongBenchTask& task = task_named("narrativeqa");
  std::map<std::pair<std::size_t, std::size_t>, int> sizes;  // (turn, size of the relevance)
  std::map<std::size_t, int> own;  // per turn: dialogues in which it contains a relevant chunk
  const auto dialogues = build_multi_turn(task, test::make_records(task, 12), {.limit = 600});
  for (const Dialogue& dialogue : dialogues) {
    const auto chunks = placed_chunks(dialogue);
    for (std::size_t j = 0; j < 3; ++j) {
      const auto& relevance = dialogue.turns[j].relevance;
      ++sizes[{j, relevance.size()}];
      own[j] += chunks.at(relevance.back()).turn == j;
    }
  }
  EXPECT_EQ((sizes[{0, 1}]), 600);
  for (std::size_t size : {1, 2}) EXPECT_NEAR((sizes[{1, size}]), 300, 60);
  for (std::size_t size : {1, 2, 3}) EXPECT_NEAR((sizes[{2, size}]), 200, 60);
  EXPECT_EQ(own[0], 600);
  EXPECT_NEAR(own[1], 450, 60);  // 1/2 * 1/2 + 1/2
  EXPECT_NEAR(own[2], 400, 60);  // (1/3 + 2/3 + 1) / 3
}

TEST(MultiTurn, IrrelevantContextCanBeSwitchedOff) {
  const LongBenchTask& task = task_named("2wikimqa");
  const Records records = test::make_records(task, 9);
  for (const BuildOptions& options : {BuildOptions{.limit = 10, .max_irrelevant_paragraphs = 0},
                                      BuildOptions{.limit = 10, .max_irrelevant_length = 0}}) {
    for (const Dialogue& dialogue : build_multi_turn(task, records, options)) {
      std::set<std::string> sources;
      for (const Turn& turn : dialogue.turns) {
        for (const Paragraph& p : turn.contexts) sources.insert(parse_source(p.source).record);
      }
      EXPECT_EQ(sources.size(), 3u);
    }
  }
  const auto with = build_multi_turn(task, records, {.limit = 10});
  for (const Dialogue& dialogue : with) {
    for (const Turn& turn : dialogue.turns) EXPECT_FALSE(turn.contexts.empty());
  }
}

TEST(MultiTurn, IrrelevantContextIsFoundIfAParagraphIsShortEnough) {
  const LongBenchTask& task = task_named("2wikimqa");
  Records records = test::make_records(task, 9);
  for (LongBenchRecord& record : records) record.context += "\nPassage 99:\nshort one";
  for (const Dialogue& dialogue :
       build_multi_turn(task, records, {.limit = 10, .max_irrelevant_length = 4})) {
    for (const Turn& turn : dialogue.turns) {
      const auto is_short = [](const Paragraph& p) { return p.text == "Passage 99:\nshort one"; };
      EXPECT_TRUE(std::any_of(turn.contexts.begin(), turn.contexts.end(), is_short));
    }
  }
}

TEST(MultiTurn, QuestionsDoNotDependOnTheAnswers) {
  for (const LongBenchTask& task : longbench_tasks()) {
    const Records records = test::make_records(task, 8);
    Records secret = records;
    for (LongBenchRecord& record : secret) record.answers = {fmt::format("xyzzy {}", record.id)};
    auto expected = build_multi_turn(task, records, {.limit = 6});
    auto built = build_multi_turn(task, secret, {.limit = 6});
    for (auto* dialogues : {&expected, &built}) {
      for (Dialogue& dialogue : *dialogues) {
        for (Turn& turn : dialogue.turns) {
          turn.references.clear();
          turn.gold.clear();
        }
      }
    }
    EXPECT_EQ(test::lines_of(built), test::lines_of(expected)) << task.name;
    EXPECT_EQ(test::lines_of(built).find("xyzzy"), std::string::npos);
  }
}

TEST(MultiTurn, GroupsHaveNoDuplicateRecords) {
  const LongBenchTask& task = task_named("qasper");
  Records records = test::make_records(task, 6);
  records[1].input = records[0].input;
  records[3].context = records[2].context;
  for (const Dialogue& dialogue : build_multi_turn(task, records, {.limit = 60})) {
    std::set<std::string> inputs, contexts, asked;
    for (const Turn& turn : dialogue.turns) {
      const auto& record = record_named(records, parse_source(turn.relevance[0]).record);
      EXPECT_TRUE(inputs.insert(record.input).second);
      EXPECT_TRUE(contexts.insert(record.context).second);
      asked.insert(record.id);
    }
  }
}

TEST(MultiTurn, RecordsWithFewExamplesAreLeftOut) {
  const LongBenchTask& task = task_named("trec");
  Records records = test::make_records(task, 3);
  const std::string example = "Question: q ?\nType: first class\n";
  records[0].context = example + example + example;
  records[1].context = records[0].context + example;
  std::set<std::string> used;
  for (const Dialogue& dialogue : build_multi_turn(task, records, {.limit = 30})) {
    used.insert(parse_source(dialogue.turns[0].relevance[0]).record);
    for (const Turn& turn : dialogue.turns) EXPECT_FALSE(turn.contexts.empty());
  }
  EXPECT_EQ(used, (std::set<std::string>{records[1].id, records[2].id}));
}

TEST(MultiTurn, RejectsImpossibleOptions) {
  const LongBenchTask& qa = task_named("musique");
  const Records two = test::make_records(qa, 2);
  EXPECT_EQ(
      test::message_of([&] { build_multi_turn(qa, two, {}); }),
      "mt-musique: found 2 records, expected at least 3 with different questions and contexts");
  EXPECT_EQ(
      test::message_of([&] { build_multi_turn(qa, {}, {}); }),
      "mt-musique: found 0 records, expected at least 3 with different questions and contexts");
  Records same = test::make_records(qa, 3);
  same[2].input = same[1].input;
  EXPECT_NE(test::message_of([&] { build_multi_turn(qa, same, {}); }), "no error");
  for (int turns : {-1, 101}) {
    EXPECT_NE(test::message_of([&] {
                build_multi_turn(qa, two, {.turns = turns});
              }).find("expected from 1 to 100"),
              std::string::npos);
  }
  const LongBenchTask& few_shot = task_named("samsum");
  Records short_one = test::make_records(few_shot, 1);
  short_one[0].context = "Dialogue: A: hi\nSummary: Hi.\n";
  EXPECT_EQ(test::message_of([&] { build_multi_turn(few_shot, short_one, {}); }),
            "mt-samsum: found no record with 4 examples or more, expected one");
}

TEST(MultiTurn, LettersContinueForManyTurns) {
  const LongBenchTask& task = task_named("multifieldqa_en");
  const BuildOptions options = {.turns = 30, .limit = 1};
  check_all(task, test::make_records(task, 60), options);
}

TEST(DialogueStats, CountsTheTokensOfADialogue) {
  Dialogue dialogue;
  dialogue.turns.resize(2);
  dialogue.turns[0].instruction = "a b";
  dialogue.turns[0].question = "c";
  dialogue.turns[0].contexts = {{"s", "d e f"}, {"s", "g"}};
  dialogue.turns[0].gold = "not counted";
  dialogue.turns[1].question = "h";
  Dialogue other;
  other.turns.resize(1);
  const std::vector<Dialogue> dialogues = {dialogue, other};
  const auto words = [](std::string_view text) {
    return text.empty() ? 0 : split(text, " ").size();
  };
  const DialogueStats stats = dialogue_stats(dialogues, words);
  EXPECT_EQ(stats.dialogues, 2u);
  EXPECT_EQ(stats.mean_turns, 1.5);
  EXPECT_EQ(stats.mean_tokens, 4.0);
  EXPECT_EQ(stats.mean_turn_tokens, 8.0 / 3.0);
  EXPECT_EQ(dialogue_stats({}, words).mean_tokens, 0.0);
}

}  // namespace
}  // namespace turnbench
