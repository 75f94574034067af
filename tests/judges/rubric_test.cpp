#include "judges/rubric.h"

#include <gtest/gtest.h>

#include "common/error.h"
#include "common/file.h"
#include "judges/prompt.h"

namespace turnbench {
namespace {

std::string rubric_file(const std::string& name) {
  return std::string(TURNBENCH_SOURCE_DIR) + "/judges/rubrics/" + name + ".txt";
}

TEST(Rubric, RoundAttention) {
  const Rubric r = load_rubric(rubric_file("round-attention"));
  EXPECT_EQ(r.name, "round-attention");
  EXPECT_EQ(r.low, 1);
  EXPECT_EQ(r.high, 10);
  EXPECT_EQ(r.overall, "overall");
  EXPECT_TRUE(r.last_turn);
  EXPECT_EQ(r.metric(), "judge:round-attention");
}

TEST(Rubric, LongBenchWrite) {
  const Rubric r = load_rubric(rubric_file("longbench-write"));
  EXPECT_EQ(r.dimensions, (std::vector<std::string>{"relevance", "accuracy", "coherence", "clarity",
                                                    "breadth and depth", "reading experience"}));
  EXPECT_EQ(r.low, 1);
  EXPECT_EQ(r.high, 5);
  EXPECT_EQ(r.overall, "");
  EXPECT_EQ(r.metric("breadth and depth"), "judge:longbench-write:breadth-and-depth");
}

Dialogue dialogue_of(const std::string& id, const std::string& task) {
  Dialogue out;
  out.id = id;
  out.task = task;
  Turn turn;
  turn.instruction = "Be brief.";
  turn.contexts = {{"a", "First text."}, {"b", "Second text."}};
  turn.question = "What {answer} now?";
  turn.references = {"one", "two"};
  out.turns = {turn, turn};
  out.turns[1].instruction = "";
  return out;
}

// Each question type has its own instructions.  Those for unanswerable questions take precedence.
TEST(Rubric, LongMemEvalPromptDependsOnTheQuestionType) {
  const Rubric r = load_rubric(rubric_file("longmemeval"));
  const auto prompt = [&](const std::string& id, const std::string& task) {
    return judge_prompt(r, dialogue_of(id, task), 0, {{0, "mine"}});
  };
  const std::string time = prompt("q1", "temporal-reasoning");
  EXPECT_NE(time.find("a difference of one"), std::string::npos) << time;
  EXPECT_NE(prompt("q1", "knowledge-update").find("newest state"), std::string::npos);
  EXPECT_NE(prompt("q1", "single-session-preference").find("suits this user"), std::string::npos);
  EXPECT_NE(prompt("q1", "multi-session").find("holds what is expected"), std::string::npos);
  const std::string none = prompt("q1_abs", "temporal-reasoning");
  EXPECT_NE(none.find("cannot be answered"), std::string::npos);
  EXPECT_EQ(none.find("a difference of one"), std::string::npos);
}

// Text of dialogues and answers is inserted literally, even if it has braces and field names.
TEST(Rubric, FillsThePromptTemplate) {
  const Rubric r = parse_rubric(
      "reply: yes-no\n[prompt]\nH<{history}>\nM<{message}>\nC<{context}>\nQ<{question}>\n"
      "R<{reference}>\nA<{answer}> {{}}\n",
      "mine", "mine.txt");
  Dialogue d = dialogue_of("x", "qa");
  EXPECT_EQ(
      judge_prompt(r, with_questions_at(d, Position::kBegin), 1, {{0, "{question}"}, {1, "b"}}),
      "H<[User]\nBe brief.\nWhat {answer} now?\nFirst text.\nSecond "
      "text.\n[Assistant]\n{question}>\nM<What {answer} now?\nFirst text.\nSecond "
      "text.>\nC<First text.\nSecond text.>\nQ<What {answer} now?>\nR<one\ntwo>\nA<b> {}");
  EXPECT_NE(judge_prompt(r, d, 1, {{1, "b"}}).find("[Assistant]\n(no answer)>"), std::string::npos);
  EXPECT_NE(judge_prompt(r, d, 0, {{0, "b"}}).find("H<(none)>"), std::string::npos);
  Dialogue begun = d;
  begun.turns[0].answer_prefix = "It is ";
  EXPECT_NE(judge_prompt(r, begun, 0, {{0, "b"}}).find("A<It is b>"), std::string::npos);
  EXPECT_NE(judge_prompt(r, begun, 1, {{0, "a"}, {1, "b"}}).find("[Assistant]\nIt is a>"),
            std::string::npos);
  EXPECT_NE(judge_prompt(r, with_questions_at(d, Position::kMiddle), 0, {{0, "b"}})
                .find("M<Be brief.\nFirst text.\nWhat {answer} now?\nSecond text.>"),
            std::string::npos);
}

// The example in docs/judges.md is a valid rubric, and the page describes every key.
TEST(Rubric, ParsesTheDocumentedExample) {
  const std::string docs = read_file(TURNBENCH_SOURCE_DIR "/docs/judges.md");
  const std::string begin = "```text\n";
  const std::size_t at = docs.find(begin) + begin.size();
  const Rubric r = parse_rubric(docs.substr(at, docs.find("```", at) - at), "mine", "docs");
  EXPECT_EQ(r.dimensions, (std::vector<std::string>{"correctness", "style"}));
  EXPECT_EQ(r.temperature, 0.5);
  for (std::string_view field : prompt_fields())
    EXPECT_NE(docs.find("`{" + std::string(field) + "}`"), std::string::npos) << field;
  for (const std::string name : {"round-attention", "longbench-write", "longmemeval"})
    EXPECT_NE(docs.find("| `" + name + "` |"), std::string::npos) << name;
}

struct Refused {
  std::string text, expected;
};

TEST(Rubric, RejectsInvalidFiles) {
  const Refused cases[] = {
      {"", "found no [prompt], expected one"},
      {"replay: json\n[prompt]\n{answer}", "line 1: found \"replay\", expected \"reply\""},
      {"reply json\n", "line 1: found \"reply json\", expected key: value"},
      {"reply: xml\n", "line 1: found \"xml\""},
      {"reply: json\nreply: json\n", "line 2: found reply twice"},
      {"scale: 1-10\n", "found \"1-10\", expected LOW to HIGH"},
      {"scale: 5 to 1\n", "expected a rising scale"},
      {"scale: 1 to x\n", "found \"x\", expected a number"},
      {"scale: nan to 5\n", "found \"nan\", expected a number"},
      {"temperature: -1\n", "found \"-1\""},
      {"turns: some\n", "found \"some\""},
      {"[guidance when=x]\n", "found \"when=x\", expected task=NAME or id=*ENDING"},
      {"reply: json\nscale: 1 to 5\n[prompt]\n{answer}", "found no dimensions"},
      {"dimensions: a, a\n[prompt]\n{answer}", "empty or repeated dimension"},
      {"dimensions: a,\n[prompt]\n{answer}", "empty or repeated dimension"},
      {"dimensions: a b, A-b\n[prompt]\n{answer}", "empty or repeated dimension"},
      {"dimensions: a, _\n[prompt]\n{answer}", "empty or repeated dimension"},
      {"dimensions: a\nscore: b\n[prompt]\n{answer}", "found a score that is no dimension"},
      {"reply: yes-no\nscale: 1 to 5\n[prompt]\n{answer}", "none with reply: yes-no"},
      {"reply: yes-no\nscore: a\n[prompt]\n{answer}", "none with reply: yes-no"},
      {"dimensions: a\n[prompt]\n{answer}", "found no scale, expected LOW to HIGH"},
      {"reply: yes-no\n[prompt]\nHello", "found no {answer} in [prompt]"},
      {"reply: yes-no\n[prompt]\n{answr}", "found \"{answr}\""},
      {"reply: yes-no\n[prompt]\n{answer} {", "[prompt]: found \"{\""},
      {"reply: yes-no\n[prompt]\n{answer}\n{guidance}", "both or neither"},
      {"reply: yes-no\n[prompt]\n{answer}\n[guidance]\nx", "both or neither"},
      {"reply: yes-no\n[prompt]\n{answer}{guidance}\n[guidance task=a]\nx",
       "found no [guidance] without a condition"},
      {"reply: yes-no\n[prompt]\n{answer}\xff", "byte 31: found 0xff, expected well-formed UTF-8"},
  };
  for (const Refused& c : cases) {
    SCOPED_TRACE(c.text);
    try {
      parse_rubric(c.text, "r", "r.txt");
      ADD_FAILURE() << "not refused";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kInput);
      EXPECT_TRUE(std::string(e.what()).starts_with("r.txt: ")) << e.what();
      EXPECT_NE(std::string(e.what()).find(c.expected), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace turnbench
