// Readers of the original formats: LongEval, RULER, InfiniteBench, GSM8K, LongMemEval, ShareGPT.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "common/error.h"
#include "common/text.h"
#include "datasets/dialogue_io.h"
#include "datasets/gsm8k.h"
#include "datasets/infinitebench.h"
#include "datasets/longeval.h"
#include "datasets/longmemeval.h"
#include "datasets/ruler.h"
#include "datasets/sharegpt.h"
#include "native_checks.h"
#include "tests/datasets/dialogue_text.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;
using test::load_checked;
using test::refusal;
using test::shared_data;

/// Instruction, contexts and question as one text without white space.
std::string whole(const Turn& turn) {
  std::string out = turn.instruction;
  for (const Paragraph& p : turn.contexts) out += p.text;
  return test::without_space(out + turn.question);
}

TEST(LongEval, RealTopics) {
  SKIP_WITHOUT(shared_data() / "longeval");
  const auto dialogues = load_checked("longeval-topics", shared_data() / "longeval");
  ASSERT_EQ(dialogues.size(), 50u);
  for (const Dialogue& d : dialogues) {
    const Turn& turn = d.turns.at(0);
    EXPECT_TRUE(turn.instruction.ends_with("Now the record start."));
    EXPECT_TRUE(turn.question.starts_with("Now the record ends. What is the first topic"));
    EXPECT_EQ(turn.contexts.back().source, "topic-5");
    for (const Paragraph& p : turn.contexts) EXPECT_TRUE(p.text.starts_with("USER: ")) << p.text;
    std::string first;
    for (const Paragraph& p : turn.contexts) first += p.source == "topic-1" ? p.text : "";
    std::string topic = turn.references.at(0).substr(4);
    EXPECT_NE(first.find(topic), std::string::npos) << topic;
  }
  EXPECT_EQ(load_dialogues("longeval-topics", shared_data() / "longeval/topics/1_topics.jsonl",
                           {.limit = 3})
                .size(),
            3u);
}

TEST(LongEval, RealLines) {
  SKIP_WITHOUT(shared_data() / "longeval");
  const auto dialogues = load_checked("longeval-lines", shared_data() / "longeval");
  ASSERT_EQ(dialogues.size(), 20u);
  EXPECT_EQ(dialogues[0].turns[0].references, std::vector<std::string>{"2416"});
  for (const Dialogue& d : dialogues) {
    const Turn& turn = d.turns.at(0);
    EXPECT_EQ(turn.contexts.size(), 25u);
    ASSERT_EQ(turn.relevance.size(), 1u);
    for (const Paragraph& p : turn.contexts) {
      EXPECT_EQ(split(p.text, "\n").size(), 8u);
      EXPECT_EQ(p.text.find("<" + turn.references[0] + ">") != std::string::npos,
                p.source == turn.relevance[0]);
    }
    EXPECT_TRUE(turn.question.starts_with("Now the record is over. Tell me"));
  }
}

TEST(LongEval, RealSummaries) {
  SKIP_WITHOUT(shared_data() / "longeval");
  const auto dialogues =
      load_checked("longeval-summary", shared_data() / "longeval", {.limit = 40});
  ASSERT_EQ(dialogues.size(), 40u);
  std::set<std::string> asked;
  for (const Dialogue& d : dialogues) {
    const Turn& turn = d.turns.at(0);
    std::set<std::string> sources;
    std::string relevant;
    for (const Paragraph& p : turn.contexts) sources.insert(p.source);
    EXPECT_EQ(sources.size(), 3u);
    ASSERT_EQ(turn.relevance.size(), 2u);
    for (const std::string& source : turn.relevance) {
      for (const Paragraph& p : turn.contexts) relevant += p.source == source ? p.text + "\n" : "";
    }
    EXPECT_EQ(test::without_space(relevant), test::without_space(turn.references.at(0)));
    asked.insert(turn.question);
  }
  EXPECT_GT(asked.size(), 35u);
  EXPECT_EQ(
      to_json_line(load_dialogues("longeval-summary", shared_data() / "longeval", {.limit = 2})[1]),
      to_json_line(dialogues[1]));
}

constexpr std::string_view kLine =
    R"({"random_idx": [], "expected_number": 5, "num_lines": 1, "token_size": 1, "correct_line": "a <5>",)"
    R"( "prompt": "Now the record start:\na <5>\n\nNow the record is over. Tell me", "prompt_length": -1})";

TEST(LongEval, TakesFilesOfAnyName) {
  const test::TemporaryDirectory directory;
  const fs::path file = directory.write("\xFF.jsonl", kLine);
  EXPECT_EQ(load_checked("longeval-lines", file).at(0).id, "\\xff-0000");
}

TEST(LongEval, RefusesRecordsWithoutTheirParts) {
  const auto topics = [](const fs::path& f) { read_longeval_topics(f, "longeval-topics", 0); };
  EXPECT_EQ(
      refusal(R"({"test_id": 0, "prompt": "hi", "topics": ["a"], "prompt_length": -1})", topics),
      "F:1: /prompt: found \"hi\", expected a prompt with \"Now the record start.\"");
  EXPECT_NE(
      refusal(R"({"test_id": 0, "topics": ["a"], "prompt_length": -1})", topics).find("F:1: "),
      std::string::npos);
  const auto lines = [](const fs::path& f) { read_longeval_lines(f, "longeval-lines", 0); };
  EXPECT_EQ(refusal(replace_all(kLine, "\"a <5>\"", "\"a <5>\\n\""), lines), "no error");
  EXPECT_EQ(refusal(replace_all(kLine, "\"a <5>\"", "\"b\""), lines),
            "F:1: /correct_line: found \"b\", expected a line of the prompt");
  EXPECT_EQ(refusal(replace_all(kLine, ": 5,", ": 6,"), lines),
            "F:1: /expected_number: found 6, expected the number of correct_line");
  const auto pool = [](const fs::path& f) { make_longeval_summaries(f, "longeval-summary", {}); };
  const std::string talk =
      R"({"topic_id": 1, "topic": "t", "conversation": "USER: I would like to )"
      R"(discuss the topic of t. \n ASSISTANT: Sure."})";
  EXPECT_EQ(refusal(talk, pool), "F: found 1 conversations, expected at least 3");
  EXPECT_EQ(refusal(talk + "\n" + talk, pool), "F:2: /topic_id: found 1, expected a unique id");
}

TEST(Ruler, RealRecords) {
  SKIP_WITHOUT(shared_data() / "ruler");
  const auto dialogues = load_checked("ruler-niah_multikey_3", shared_data() / "ruler/4096");
  ASSERT_EQ(dialogues.size(), 20u);
  EXPECT_EQ(dialogues[0].turns[0].references,
            std::vector<std::string>{"1ee34dc4-3b04-4a8b-805b-fdc94e7ed827"});
  for (const Dialogue& d : dialogues) {
    const Turn& turn = d.turns.at(0);
    EXPECT_TRUE(turn.instruction.starts_with("A special magic uuid is hidden"));
    EXPECT_TRUE(turn.question.starts_with("What is the special magic uuid for "));
    EXPECT_TRUE(turn.question.ends_with("mentioned in the provided text?"));
    EXPECT_TRUE(turn.answer_prefix.starts_with(" The special magic uuid for "));
    EXPECT_TRUE(turn.answer_prefix.ends_with("mentioned in the provided text is"));
    ASSERT_EQ(turn.relevance.size(), 1u);
    const auto at = std::find_if(turn.contexts.begin(), turn.contexts.end(),
                                 [&](const Paragraph& p) { return p.source == turn.relevance[0]; });
    EXPECT_NE(at->text.find(turn.references[0]), std::string::npos);
    EXPECT_EQ(test::without_space(whole(turn)).size(), whole(turn).size());
  }
}

TEST(Ruler, NothingOfThePromptIsLost) {
  const std::string record =
      R"({"index": 3, "input": "Do this.\n\nVAR A = 1\nVAR B = VAR A\nQuestion: which? Answer: ", )"
      R"("outputs": ["A", "B"], "length": 20})";
  const test::TemporaryDirectory directory;
  const fs::path file = directory.write("vt.jsonl", record);
  const auto dialogues = load_checked("ruler-vt", directory.path());
  EXPECT_EQ(dialogues.at(0).id, "vt-00003");
  const Turn& turn = dialogues[0].turns.at(0);
  EXPECT_EQ(whole(turn), "Dothis.VARA=1VARB=VARAQuestion:which?");
  EXPECT_EQ(turn.instruction, "Do this.");
  EXPECT_EQ(turn.question, "Question: which?");
  EXPECT_EQ(turn.answer_prefix, " Answer: ") << "as the generator wrote it";
  EXPECT_EQ(turn.max_new_tokens, 30);
  EXPECT_EQ(turn.gold, "A, B");
  directory.write("qa_1.jsonl", R"({"index": 0, "input": "Read.\nText.\nWhere? Answer:", )"
                                R"("outputs": ["France", "in France"], "length": 9})");
  EXPECT_EQ(load_checked("ruler-qa_1", directory.path()).at(0).turns.at(0).gold, "France")
      << "one of the alternatives";
  // As written by later versions of the generators.
  directory.write("cwe.jsonl", R"({"index": 0, "input": "Words.\n1. a 2. b\nWhich?", "outputs": )"
                               R"(["a"], "length": 9, "answer_prefix": " Answer: They are:"})");
  const Turn other = load_checked("ruler-cwe", directory.path()).at(0).turns.at(0);
  EXPECT_EQ(other.question, "Which?");
  EXPECT_EQ(other.answer_prefix, " Answer: They are:");
  const auto task = std::find_if(ruler_tasks().begin(), ruler_tasks().end(),
                                 [](const RulerTask& t) { return t.name == "vt"; });
  const auto read = [&](const fs::path& f) { read_ruler(f, *task, "r", 0); };
  EXPECT_EQ(refusal(record + "\n" + record, read), "F:2: /index: found 3, expected a unique index");
  EXPECT_EQ(refusal(R"({"index": 0, "input": "a Answer: b", "outputs": ["a"], )"
                    R"("length": 1})",
                    read),
            "F:1: /input: found \"a Answer: b\", expected a prompt of several lines");
  for (const char* input : {"a\\nb", "a Answer: b\\nc"}) {
    EXPECT_EQ(refusal(fmt::format(R"({{"index": 0, "input": "{}", "outputs": ["a"], "length": 1}})",
                                  input),
                      read),
              fmt::format("F:1: /input: found \"{}\", expected a prompt whose last line has "
                          "\" Answer:\"",
                          input));
  }
  EXPECT_EQ(refusal(R"({"index": 0, "input": "a\nb Answer: c", "outputs": [], )"
                    R"("length": 1})",
                    read),
            "F:1: /outputs: found an array of 0, expected at least one output");
}

TEST(InfiniteBench, ReadsEveryKindOfAnswer) {
  const test::TemporaryDirectory directory;
  const auto write = [&](const char* name, const std::string& answer, const std::string& options) {
    directory.write(std::string(name) + ".jsonl",
                    fmt::format(R"({{"id": 7, "context": "Some text.", "input": "What?", )"
                                R"("answer": {}, "options": {}}})",
                                answer, options));
    return load_checked(std::string("infinitebench-") + name, directory.path()).at(0).turns.at(0);
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(write("passkey", R"(["71432"])", "[]").references, Texts{"71432"});
  EXPECT_EQ(write("math_find", "88", "[]").references, Texts{"88"});
  EXPECT_EQ(write("math_calc", "[1, -2]", "[]").references, (Texts{"1", "-2"}));
  EXPECT_EQ(write("math_calc", "[1, -2]", "[]").gold, "[1, -2]");
  const Turn choice = write("longbook_choice_eng", R"(["two"])", R"(["one", "two", "3", "4"])");
  EXPECT_EQ(choice.references, (Texts{"two", "B"}));
  EXPECT_EQ(choice.question, "What?\nA. one\nB. two\nC. 3\nD. 4");
  EXPECT_EQ(test::message_of([&] { write("code_debug", R"("five")", R"(["1", "2", "3", "4"])"); }),
            (directory.path() / "code_debug.jsonl").string() +
                ":1: /answer: found \"five\", expected one of the options");
  EXPECT_EQ(test::message_of([&] { write("passkey", "true", "[]"); }),
            (directory.path() / "passkey.jsonl").string() +
                ":1: /answer: found true, expected a text or a number");
  for (const InfiniteBenchTask& task : infinitebench_tasks()) {
    EXPECT_NO_THROW(find_dataset(fmt::format("infinitebench-{}", task.name), "test"));
  }
}

TEST(Gsm8k, RealRecords) {
  SKIP_WITHOUT(shared_data() / "gsm8k");
  const auto plain = load_checked("gsm8k", shared_data() / "gsm8k");
  ASSERT_EQ(plain.size(), 40u);
  EXPECT_EQ(plain[0].turns[0].references, std::vector<std::string>{"18"});
  EXPECT_TRUE(plain[0].turns[0].contexts.empty());
  const auto examples = load_checked("gsm8k-cot", shared_data() / "gsm8k");
  ASSERT_EQ(examples.size(), 40u);
  const Turn& turn = examples[0].turns[0];
  EXPECT_EQ(turn.contexts.size(), 10u);
  for (const Paragraph& p : turn.contexts) {
    EXPECT_TRUE(p.text.starts_with("Question: "));
    EXPECT_NE(p.text.find("\nThe answer is "), std::string::npos);
  }
  EXPECT_TRUE(turn.question.ends_with("\nLet's think step by step"));
}

TEST(Gsm8k, NumbersWithoutSeparators) {
  const auto read = [](const fs::path& f) { read_gsm8k(f, "", "gsm8k", 0); };
  const test::TemporaryDirectory directory;
  const fs::path file =
      directory.write("test.jsonl", R"({"question": "q", "answer": "so <<1=1>>\n#### -1,234.5"})");
  EXPECT_EQ(read_gsm8k(file, "", "gsm8k", 0)[0].turns[0].references[0], "-1234.5");
  EXPECT_EQ(refusal(R"({"question": "q", "answer": "18"})", read),
            "F:1: /answer: found \"18\", expected an answer with \"#### \" and a number");
  EXPECT_EQ(refusal(R"({"question": "q", "answer": "#### many"})", read),
            "F:1: /answer: found \"#### many\", expected a number after \"#### \"");
  EXPECT_EQ(refusal(R"({"question": " ", "answer": "#### 1"})", read),
            "F:1: /question: found \" \", expected a question");
}

TEST(Gsm8k, RefusesExamplesThatAreNotUtf8) {
  const test::TemporaryDirectory directory;
  directory.write("test.jsonl", R"({"question": "q", "answer": "#### 1"})");
  const fs::path examples = directory.write("examples.txt", "Question: \xFF");
  EXPECT_EQ(test::message_of([&] { load_dialogues("gsm8k-cot", examples, {}); }),
            examples.string() + ": byte 10: found 0xff, expected well-formed UTF-8");
}

TEST(LongMemEval, RealRecords) {
  SKIP_WITHOUT(shared_data() / "longmemeval");
  const auto one =
      load_checked("longmemeval-oracle", shared_data() / "longmemeval/longmemeval_sample.json");
  ASSERT_EQ(one.size(), 1u);
  const Turn& turn = one[0].turns.at(0);
  EXPECT_EQ(turn.references[0], "25 minutes and 50 seconds (or 25:50)");
  EXPECT_EQ(turn.relevance, (std::vector<std::string>{"answer_a25d4a91_1", "answer_a25d4a91_2"}));
  EXPECT_TRUE(turn.contexts[0].text.starts_with("[Chat of 2023/05/25 (Thu) 20:21]\nuser: I'm"));
  EXPECT_TRUE(turn.contexts[1].text.starts_with("assistant: "));
  EXPECT_EQ(load_checked("longmemeval-s",
                         shared_data() / "longmemeval/recovered_evidence_only.json", {.limit = 40})
                .size(),
            34u);
}

TEST(LongMemEval, ReplaysChatsTurnByTurn) {
  const test::TemporaryDirectory directory;
  const fs::path file = directory.write("longmemeval_s.json", R"([
      {"question_id": "a", "question_type": "multi-session", "question": "How many?", "answer": 2,
       "question_date": "day 9", "haystack_dates": ["day 1", "day 2"],
       "haystack_session_ids": ["s", "t"],
       "haystack_sessions": [
         [{"role": "user", "content": "One."}, {"role": "user", "content": "More."},
          {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Bye."}],
         [{"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Two."},
          {"role": "assistant", "content": "Fine."}]],
       "answer_session_ids": ["s"]},
      {"question_id": "b", "question_type": "knowledge-update", "question": "?", "answer": "x",
       "question_date": "d", "haystack_dates": [], "haystack_session_ids": [],
       "haystack_sessions": [], "answer_session_ids": []}])");
  const auto all = load_checked("mt-longmemeval-s", file);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].task, "multi-session");
  std::vector<std::pair<std::string, std::string>> got;
  for (const Turn& turn : all[0].turns) got.emplace_back(turn.question, turn.gold);
  EXPECT_EQ(got, (std::vector<std::pair<std::string, std::string>>{
                     {"[Chat of day 1]\nOne.\nMore.", "Yes."},
                     {"Bye.", ""},
                     {"[Chat of day 2]", "Hello."},
                     {"Two.", "Fine."},
                     {"Today is day 9. How many?", "2"}}));
  EXPECT_EQ(all[1].turns.size(), 1u);
}

TEST(LongMemEval, RefusesSessionsThatDoNotFit) {
  const std::string record =
      R"([{"question_id": "q", "question_type": "t", "question": "?", "answer": 5, )"
      R"("question_date": "d", "haystack_dates": ["d"], "haystack_session_ids": ["s"], )"
      R"("haystack_sessions": [[{"role": "user", "content": "hi"}]], "answer_session_ids": ["s"]}])";
  const auto read = [](const fs::path& f) { read_longmemeval(f, "longmemeval-s", 0); };
  EXPECT_EQ(refusal(record, read), "no error");
  EXPECT_NE(
      refusal(replace_all(record, "\"d\"]", "\"d\", \"e\"]"), read)
          .find("expected as many sessions as haystack_session_ids (1) and haystack_dates (2)"),
      std::string::npos);
  EXPECT_NE(refusal(replace_all(record, "\"?\"", "\"\""), read)
                .find("/0/question: found \"\", expected a question"),
            std::string::npos);
  EXPECT_NE(refusal(replace_all(record, "_ids\": [\"s\"]}", "_ids\": [\"x\"]}"), read)
                .find("/0/answer_session_ids: found an array of 1, expected ids of"),
            std::string::npos);
}

TEST(ShareGpt, RealChats) {
  const fs::path folder = shared_data() / "sharegpt";
  SKIP_WITHOUT(folder);
  EXPECT_EQ(load_checked("sharegpt", folder / "longchat_dummy_conversation.json").size(), 100u);
  const auto dummy = load_checked("sharegpt", folder / "fastchat_dummy_conversation.json");
  ASSERT_EQ(dummy.size(), 100u);
  EXPECT_EQ(dummy[0].turns.at(0).question, "Who are you?");
  EXPECT_EQ(dummy[0].turns.at(1).references[0], "You too!");
  const fs::path questions = folder / "fidbench_sharegpt.jsonl";  // without answers
  EXPECT_EQ(test::message_of([&] { load_checked("sharegpt", questions); }),
            questions.string() + ": found no chat with a question and its answer, expected one");
  const auto calls = load_checked("sharegpt", folder / "glaive_toolcall_en_demo.json");
  for (const Dialogue& d : calls) EXPECT_LE(d.turns.size(), 6u);
  EXPECT_GE(load_checked("sharegpt", folder / "sharegpt_zh_1K_format.jsonl").size(), 30u);
}

TEST(ShareGpt, ClassesByTurns) {
  const test::TemporaryDirectory directory;
  std::string text;
  for (int turns : {1, 10, 11, 30, 31, 50, 51, 100, 101}) {
    text += R"({"conversations": [)";
    for (int i = 0; i < turns; ++i) {
      text += i == 0 ? "" : ", ";
      text += R"({"from": "human", "value": "a"}, {"from": "gpt", "value": "b"})";
    }
    text += "]}\n";
  }
  const fs::path file = directory.write("c.jsonl", text);
  const auto turns_of = [&](const std::string& name) {
    std::vector<std::size_t> out;
    for (const Dialogue& d : load_checked(name, file)) out.push_back(d.turns.size());
    return out;
  };
  EXPECT_EQ(turns_of("sharegpt").size(), 9u);
  EXPECT_EQ(turns_of("sharegpt-mini"), (std::vector<std::size_t>{1, 10}));
  EXPECT_EQ(turns_of("sharegpt-small"), (std::vector<std::size_t>{11, 30}));
  EXPECT_EQ(turns_of("sharegpt-medium"), (std::vector<std::size_t>{31, 50}));
  EXPECT_EQ(turns_of("sharegpt-large"), (std::vector<std::size_t>{51, 100}));
  const auto large = [](const fs::path& f) { read_sharegpt(f, "sharegpt-large", 0, {51, 100}); };
  EXPECT_EQ(refusal(R"([{"conversations": []}])", large),
            "F: found no chat with 51 to 100 questions and answers, expected one");
}

TEST(ShareGpt, ChatEndsIfSpeakersDoNotAlternate) {
  const test::TemporaryDirectory directory;
  const fs::path file = directory.write(
      "c.jsonl",
      R"({"conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}, {"from": "human", "value": "c"}, {"from": "function_call", "value": "d"}, {"from": "gpt", "value": "e"}]})"
      "\n"
      R"({"conversations": [{"from": "gpt", "value": "b"}]})");
  const auto dialogues = read_sharegpt(file, "sharegpt", 0);
  ASSERT_EQ(dialogues.size(), 1u);
  ASSERT_EQ(dialogues[0].turns.size(), 1u);
  EXPECT_EQ(dialogues[0].turns[0].gold, "b");
  const auto read = [](const fs::path& f) { read_sharegpt(f, "sharegpt", 0); };
  EXPECT_EQ(refusal(R"([{"conversations": []}])", read),
            "F: found no chat with a question and its answer, expected one");
  EXPECT_NE(refusal(R"([{"conversations": [{"from": "human"}]}])", read).find("/0/conversations/0"),
            std::string::npos);
}

}  // namespace
}  // namespace turnbench
