// The reader of LongBench v2, on synthetic records.

#include "datasets/longbench_v2.h"

#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "common/json.h"
#include "native_checks.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;
using test::load_checked;
using test::message_of;
using test::TemporaryDirectory;

Json record(const std::string& id, const char* difficulty, const char* length) {
  return {{"_id", id},
          {"domain", "Single-Document QA"},
          {"sub_domain", "Literary"},
          {"difficulty", difficulty},
          {"length", length},
          {"question", " Who owns {the} lamp? "},
          {"choice_A", " Ann"},
          {"choice_B", "Bob $C_D$"},
          {"choice_C", "Cy"},
          {"choice_D", "Dee\n"},
          {"answer", "B"},
          {"context", "\n\nThe lamp is $Q$ Bob's.\n"}};
}

/// All characters of the official template that matter: each placeholder, in its order.
constexpr const char* kTemplate =
    "Read:\n$DOC$\nQ: $Q$\n(A) $C_A$\n(B) $C_B$\n(C) $C_C$\n(D) $C_D$";

TEST(LongBenchV2, ReadsAllRecordsAndEachSet) {
  const TemporaryDirectory directory;
  directory.write("data.json", Json{record("1", "easy", "short"), record("2", "hard", "short"),
                                    record("3", "hard", "long")}
                                   .dump());
  const auto ids = [&](const char* name, const BuildOptions& options = {}) {
    std::string out;
    for (const Dialogue& d : load_checked(name, directory.path(), options)) out += d.id;
    return out;
  };
  EXPECT_EQ(ids("longbench-v2"), "123");
  EXPECT_EQ(ids("longbench-v2-easy"), "1");
  EXPECT_EQ(ids("longbench-v2-hard"), "23");
  EXPECT_EQ(ids("longbench-v2-short"), "12");
  EXPECT_EQ(ids("longbench-v2-medium"), "");
  EXPECT_EQ(ids("longbench-v2-long"), "3");
  EXPECT_EQ(ids("longbench-v2-hard", {.limit = 1}), "2");

  const Dialogue dialogue = load_checked("longbench-v2", directory.path()).at(0);
  EXPECT_EQ(dialogue.task, "Single-Document QA");
  const Turn& turn = dialogue.turns.at(0);
  EXPECT_EQ(turn.layout, Layout::kPieces);
  ASSERT_EQ(turn.contexts.size(), 1u);
  EXPECT_EQ(turn.contexts[0].text, "The lamp is $Q$ Bob's.");
  EXPECT_TRUE(turn.question.starts_with(
      "Who owns {the} lamp?\n(A) Ann\n(B) Bob $C_D$\n(C) Cy\n(D) Dee\nReply with"))
      << turn.question;
  EXPECT_EQ(turn.references, std::vector<std::string>{"B"});
  EXPECT_EQ(gold_answer_text(turn), "The correct answer is (B)");
  EXPECT_EQ(turn.max_new_tokens, 128);
}

TEST(LongBenchV2, FillsTheOfficialPromptAsPredPyDoes) {
  const TemporaryDirectory directory;
  directory.write("data.json", Json{record("1", "easy", "short")}.dump());
  EXPECT_EQ(message_of([&] {
              load_dialogues("longbench-v2", directory.path(), {.official_prompts = true});
            }),
            (directory.path() / "data.json").string() +
                ": found no official prompt, expected prompts/0shot.txt");
  directory.write("0shot.txt", kTemplate);
  const Turn turn =
      load_checked("longbench-v2", directory.path(), {.official_prompts = true})[0].turns.at(0);
  EXPECT_EQ(turn.layout, Layout::kVerbatim);
  // Placeholders are replaced one after the other, also those in texts that were inserted before.
  EXPECT_EQ(turn.instruction + turn.contexts.at(0).text + turn.question,
            "Read:\nThe lamp is Who owns {the} lamp? Bob's.\nQ: Who owns {the} lamp?\n(A) Ann\n(B) "
            "Bob Dee\n(C) Cy\n(D) Dee");
  const auto refusal = [&](const std::string& text) {
    const fs::path file = directory.write("0shot.txt", text);
    return test::message_of([&] { load_longbench_v2_prompt(directory.path()); })
        .substr(file.string().size());
  };
  EXPECT_EQ(refusal("$DOC$ $Q$"), ": found no $C_A$, expected it once");
  EXPECT_EQ(refusal(std::string(kTemplate) + "$DOC$"), ": found several $DOC$, expected it once");
}

TEST(LongBenchV2, RefusesDamagedRecords) {
  const auto refusal = [](const std::function<void(Json&)>& change) {
    Json bad = record("2", "hard", "long");
    change(bad);
    return test::refusal(Json{record("1", "easy", "short"), bad}.dump(), [](const fs::path& file) {
      read_longbench_v2(file, longbench_v2_sets()[0], "longbench-v2", 0);
    });
  };
  EXPECT_EQ(refusal([](Json&) {}), "no error");
  EXPECT_EQ(refusal([](Json& r) { r["_id"] = "1"; }),
            "F: /1/_id: found \"1\", expected a unique id");
  EXPECT_EQ(refusal([](Json& r) { r["answer"] = "E"; }),
            "F: /1/answer: found \"E\", expected one of: A, B, C, D");
  EXPECT_EQ(refusal([](Json& r) { r["difficulty"] = "Hard"; }),
            "F: /1/difficulty: found \"Hard\", expected one of: easy, hard");
  EXPECT_EQ(refusal([](Json& r) { r["length"] = 7; }), "F: /1/length: found 7, expected a string");
  EXPECT_EQ(refusal([](Json& r) { r["context"] = " \n"; }),
            "F: /1/context: found \" \\n\", expected a text");
  EXPECT_EQ(refusal([](Json& r) { r["question"] = ""; }),
            "F: /1/question: found \"\", expected a question");
  EXPECT_EQ(refusal([](Json& r) { r.erase("choice_C"); }),
            "F: /1: found no key \"choice_C\", expected one");
  EXPECT_EQ(refusal([](Json& r) { r["choice_E"] = ""; }),
            "F: /1: found the unknown key \"choice_E\", expected \"choice_A\"");
}

}  // namespace
}  // namespace turnbench
