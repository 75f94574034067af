#include "datasets/custom.h"

#include <gtest/gtest.h>

#include "common/text.h"
#include "datasets/dialogue_io.h"
#include "datasets/needle_dialogues.h"
#include "datasets/needle_questions.h"
#include "longbench_samples.h"

namespace turnbench {
namespace {

std::vector<Dialogue> read(const std::string& content, const FieldNames& fields = {}) {
  const test::TemporaryDirectory directory;
  return read_custom(directory.write("f.jsonl", content), fields, "jsonl", 0);
}

std::string refusal(const std::string& content, const FieldNames& fields = {}) {
  const test::TemporaryDirectory directory;
  const auto file = directory.write("f.jsonl", content);
  return replace_all(test::message_of([&] { read_custom(file, fields, "jsonl", 0); }), file, "F");
}

TEST(Custom, OneTurnALine) {
  const auto dialogues =
      read(R"({"question": "q?", "references": "a", "context": "One. Two."})"
           "\n"
           R"({"question": "r?", "references": ["b", "c"], "id": 12, "more": 1})");
  ASSERT_EQ(dialogues.size(), 2u);
  EXPECT_EQ(dialogues[0].id, "000001");
  EXPECT_EQ(dialogues[1].id, "12");
  const Turn& turn = dialogues[0].turns.at(0);
  EXPECT_EQ(turn.question, "q?");
  EXPECT_EQ(turn.references, std::vector<std::string>{"a"});
  ASSERT_EQ(turn.contexts.size(), 1u);
  EXPECT_EQ(turn.contexts[0].text, "One. Two.");
  EXPECT_EQ(turn.contexts[0].source, "turn-1#1");
  EXPECT_EQ(turn.relevance, std::vector<std::string>{"turn-1#1"});
  EXPECT_EQ(turn.gold, "a");
  EXPECT_TRUE(dialogues[1].turns[0].contexts.empty());
  EXPECT_EQ(dialogues[1].metric, "qa_f1");
}

TEST(Custom, FieldsCanBeRenamed) {
  const auto dialogues =
      read(R"({"conv": [{"q": "q?", "doc": ["x", "y"], "answers": ["a"], "max": 9}, )"
           R"({"q": "r?", "answers": "b", "from": ["turn-1#2"], "position": "begin"}]})",
           {{"turns", "conv"},
            {"question", "q"},
            {"context", "doc"},
            {"references", "answers"},
            {"relevance", "from"},
            {"max_new_tokens", "max"}});
  ASSERT_EQ(dialogues.at(0).turns.size(), 2u);
  EXPECT_EQ(dialogues[0].turns[0].contexts[1].text, "y");
  EXPECT_EQ(dialogues[0].turns[0].max_new_tokens, 9);
  EXPECT_EQ(dialogues[0].turns[1].relevance, std::vector<std::string>{"turn-1#2"});
  EXPECT_EQ(dialogues[0].turns[1].position, Position::kBegin);
}

TEST(Custom, ReferencesNeedNotBeAnswers) {
  const auto dialogues = read(R"({"question": "q?", "references": "100", "has_gold": false})");
  EXPECT_EQ(gold_answer_text(dialogues.at(0).turns.at(0)), "");
  const auto again = read(to_json_line(dialogues[0]));
  EXPECT_EQ(to_json_line(again.at(0)), to_json_line(dialogues[0]));
  EXPECT_FALSE(parse_dialogue(to_json_line(dialogues[0]), "line").turns.at(0).has_gold);
  const auto begun = read(R"({"question": "q?", "references": "1", "answer_prefix": " It is"})");
  EXPECT_EQ(begun.at(0).turns.at(0).answer_prefix, " It is");
  EXPECT_EQ(parse_dialogue(to_json_line(begun[0]), "line").turns.at(0).answer_prefix, " It is");
  EXPECT_EQ(to_json_line(dialogues[0]).find("answer_prefix"), std::string::npos);
}

TEST(Custom, ReadsWhatTheProgramWrites) {
  std::string lines;
  std::vector<Dialogue> expected = make_needle_dialogues(needle_tasks()[0], "jsonl", {},
                                                         {.turns = 3, .limit = 2, .length = 900});
  for (Dialogue& d : expected) {
    d.task = "custom";
    lines += to_json_line(d) + "\n";
  }
  const auto dialogues = read(lines);
  ASSERT_EQ(dialogues.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(to_json_line(dialogues[i]), to_json_line(expected[i]));
  }
}

// A field at the wrong level would be ignored, so it is an error.
TEST(Custom, RefusesFieldsOfTheOtherLevel) {
  const std::string turn = R"("turns": [{"question": "q?", "references": "a"}]})";
  for (const char* field : {"position", "max_new_tokens", "instruction", "references"}) {
    const std::string message = refusal(fmt::format(R"({{"{}": "begin", {})", field, turn));
    EXPECT_NE(message.find(fmt::format("F:1: /{}: found", field)), std::string::npos) << message;
    EXPECT_NE(message.find("expected it in each of the \"turns\""), std::string::npos) << message;
  }
  const std::string message =
      refusal(R"({"turns": [{"question": "q?", "references": "a", "metric": "exact_match"}]})");
  EXPECT_NE(message.find("/turns/0/metric: found"), std::string::npos) << message;
  EXPECT_NE(message.find("expected it next to \"turns\""), std::string::npos) << message;
  EXPECT_EQ(read(R"({"metric": "rouge_l", )" + turn)[0].metric, "rouge_l");
}

TEST(Custom, RefusesNamesThatNoLineHas) {
  const std::string line = R"({"question": "q?", "references": "a", "context": "c"})";
  EXPECT_EQ(refusal(line, {{"context", "documents"}}),
            "fields: found \"documents\" for context, expected a field that some line of F has");
  const auto dialogues =
      read(line + "\n" + R"({"question": "q?", "references": "a", "documents": "d"})",
           {{"context", "documents"}});
  EXPECT_TRUE(dialogues.at(0).turns[0].contexts.empty());
  EXPECT_EQ(dialogues.at(1).turns[0].contexts.at(0).text, "d");
}

TEST(Custom, RefusesWithFileLineAndField) {
  EXPECT_EQ(refusal(R"({"question": "q?", "references": 5})"),
            "F:1: /references: found 5, expected a text or a list of texts");
  EXPECT_EQ(refusal(R"({"question": "q?", "references": "a", "context": 5})"),
            "F:1: /context: found 5, expected a text or a list of paragraphs");
  EXPECT_EQ(refusal(R"({"question": "q?", "references": "a", "context": [5]})"),
            "F:1: /context/0: found 5, expected a text, or an object with source and text");
  const std::string good = R"({"question": "q?", "references": "a"})";
  EXPECT_EQ(refusal(good + "\n{\"references\": \"a\"}").substr(0, 5), "F:2: ");
  EXPECT_EQ(
      refusal(R"({"question": "q?", "references": []})"),
      "F:1: /references: found an array of 0, expected at least one reference; \"\" where there is "
      "none");
  EXPECT_NE(refusal(R"({"turns": []})").find("F:1: /turns: "), std::string::npos);
  EXPECT_EQ(refusal(R"({"turns": [{"question": "q?", "references": "a", "relevance": "x"}]})"),
            "F:1: /turns/0/relevance: found \"x\", expected sources of paragraphs of this or an "
            "earlier turn");
  EXPECT_EQ(refusal(R"({"id": "a", "question": "q?", "references": "a"})"
                    "\n"
                    R"({"id": "a", "question": "q?", "references": "a"})"),
            "F:2: /id: found \"a\", expected a unique id");
  EXPECT_EQ(refusal(good, {{"questoin", "q"}}),
            "fields: found the name \"questoin\", expected \"question\"");
  EXPECT_EQ(refusal(R"({"turns": [{"question": " \n", "references": "a"}]})"),
            "F:1: /turns/0/question: found \" \\n\", expected a question");
  EXPECT_NE(refusal(R"({"question": 5, "references": "a"})").find("F:1: /question: found 5"),
            std::string::npos);
}

}  // namespace
}  // namespace turnbench
