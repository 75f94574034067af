#include "datasets/dialogue_io.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/file.h"
#include "longbench_samples.h"

namespace turnbench {
namespace {

Dialogue sample() {
  Turn first;
  first.instruction = "Answer \"briefly\".";
  first.contexts = {{"doc#1-1", "Zeile\n日本語 😀\t\\"}, {"doc#2-2", ""}};
  first.question = "What?";
  first.position = Position::kMiddle;
  first.references = {"this", "that"};
  first.relevance = {"doc#1-1"};
  first.gold = "this";
  first.max_new_tokens = 32;
  Turn second = first;
  second.contexts = {};
  second.classes = {"a", "b"};
  second.relevance = {"doc#2-2"};
  second.position = Position::kBegin;
  return {
      .id = "d-1", .dataset = "made-up", .task = "qa", .metric = "qa_f1", .turns = {first, second}};
}

TEST(DialogueIo, LineEqualsTheDocumentedFormat) {
  Dialogue dialogue = sample();
  dialogue.turns.pop_back();
  EXPECT_EQ(to_json_line(dialogue),
            R"({"id":"d-1","dataset":"made-up","task":"qa","metric":"qa_f1","turns":[)"
            R"({"instruction":"Answer \"briefly\".","contexts":[)"
            R"({"source":"doc#1-1","text":"Zeile\n日本語 😀\t\\"},{"source":"doc#2-2","text":""}],)"
            R"("question":"What?","position":"middle","references":["this","that"],)"
            R"("relevance":["doc#1-1"],"max_new_tokens":32,"classes":[],"gold":"this"}]})");
}

TEST(DialogueIo, ReadsWhatItWrites) {
  const test::TemporaryDirectory directory;
  Dialogue other = sample();
  other.id = "d-2";
  const std::vector<Dialogue> dialogues = {sample(), other};
  const auto path = directory.path() / "d.jsonl";
  write_dialogues(path, dialogues);
  const std::vector<Dialogue> read = read_dialogues(path);
  ASSERT_EQ(read.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(to_json_line(read[i]), to_json_line(dialogues[i]));
}

TEST(DialogueIo, OwnKeysMayBeMissing) {
  const test::TemporaryDirectory directory;
  const auto path = directory.write(
      "d.jsonl",
      R"({"id":"a","dataset":"b","metric":"m","turns":[{"contexts":[],"question":"q","position":"end",)"
      R"("references":["r","s"],"relevance":[],"max_new_tokens":1,"classes":[]}]})");
  const std::vector<Dialogue> read = read_dialogues(path);
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].task, "");
  EXPECT_EQ(read[0].turns[0].instruction, "");
  EXPECT_EQ(read[0].turns[0].gold, "r");
}

struct BadLine {
  const char* name;
  const char* at;        ///< JSON pointer of the changed value in the sample
  const char* value;     ///< its new value; null removes it
  const char* expected;  ///< a part of the message
};

TEST(DialogueIo, RejectsInvalidDialogues) {
  const std::vector<BadLine> table = {
      {"no id", "/id", nullptr, ": /: found no key \"id\""},
      {"number as id", "/id", "3", "/id: found 3, expected a string"},
      {"empty id", "/id", "\"\"", "/id: found \"\", expected an id"},
      {"no dataset", "/dataset", nullptr, "no key \"dataset\""},
      {"no metric", "/metric", nullptr, "no key \"metric\""},
      {"task is a list", "/task", "[]", "/task: found an array of 0, expected a string"},
      {"no turns", "/turns", nullptr, "no key \"turns\""},
      {"empty turns", "/turns", "[]", "/turns: found an array of 0, expected at least one turn"},
      {"turns are a string", "/turns", "\"x\"", "/turns: found \"x\", expected an array"},
      {"a turn is null", "/turns/0", "null", "/turns/0: found null, expected an object"},
      {"unknown key", "/turnz", "[]", "unknown key \"turnz\", expected \"turns\""},
      {"unknown key in a turn", "/turns/0/reference", "[]", "expected \"references\""},
      {"unknown key in a paragraph", "/turns/0/contexts/0/txt", "1", "expected \"text\""},
      {"no question", "/turns/0/question", nullptr, "/turns/0: found no key \"question\""},
      {"bad position", "/turns/0/position", "\"centre\"", "/turns/0/position: found the position"},
      {"position is a number", "/turns/1/position", "1", "/turns/1/position: found 1"},
      {"no references", "/turns/0/references", "[]", "expected at least one reference"},
      {"reference is a number", "/turns/0/references/1", "7", "/turns/0/references/1: found 7"},
      {"classes are missing", "/turns/0/classes", nullptr, "no key \"classes\""},
      {"no tokens", "/turns/0/max_new_tokens", "0", "an integer from 1 to"},
      {"half a token", "/turns/0/max_new_tokens", "1.5", "found 1.5"},
      {"very many tokens", "/turns/0/max_new_tokens", "1e300", "/turns/0/max_new_tokens: found"},
      {"text is null", "/turns/0/contexts/0/text", "null", "/text: found null, expected a string"},
      {"source is missing", "/turns/0/contexts/0/source", nullptr, "no key \"source\""},
      {"unknown source", "/turns/0/relevance/0", "\"doc#9\"", "/turns/0/relevance/0: found"},
      {"source of a later turn", "/turns/0/relevance/0", "\"later\"", "this or an earlier turn"},
  };
  const test::TemporaryDirectory directory;
  for (const BadLine& bad : table) {
    nlohmann::json json = nlohmann::json::parse(to_json_line(sample()));
    json["turns"][1]["contexts"].push_back({{"source", "later"}, {"text", ""}});
    const nlohmann::json::json_pointer at(bad.at);
    if (bad.value != nullptr) {
      json[at] = nlohmann::json::parse(bad.value);
    } else {
      json[at.parent_pointer()].erase(at.back());
    }
    const auto path = directory.write("bad.jsonl", to_json_line(sample()) + "\n" + json.dump());
    const std::string message = test::message_of([&] { read_dialogues(path); });
    EXPECT_TRUE(message.starts_with(path + ":2: ")) << bad.name << ": " << message;
    EXPECT_NE(message.find(bad.expected), std::string::npos) << bad.name << ": " << message;
  }
}

TEST(DialogueIo, RefusesTheSameIdTwice) {
  const test::TemporaryDirectory directory;
  const auto path =
      directory.write("twice.jsonl", to_json_line(sample()) + "\n" + to_json_line(sample()) + "\n");
  EXPECT_EQ(test::message_of([&] { read_dialogues(path); }),
            path + ":2: /id: found \"d-1\", expected a unique id");
}

}  // namespace
}  // namespace turnbench
