// Readers of the original formats of LongBench-Write, QMSum, L-Eval, MT-Bench and SCBench, on
// synthetic records.

#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "common/json.h"
#include "datasets/leval.h"
#include "datasets/longbench_write.h"
#include "datasets/mt_bench.h"
#include "datasets/qmsum.h"
#include "datasets/scbench.h"
#include "native_checks.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;
using test::load_checked;
using test::refusal;
using Texts = std::vector<std::string>;

/// A change to a valid record, and the resulting error message without file and line.
struct Damage {
  std::function<void(Json&)> change;
  std::string expected;
};

Damage without(const std::string& key) {
  return {[key](Json& r) { r.erase(key); },
          fmt::format("/: found no key \"{}\", expected one", key)};
}

Damage with(const char* pointer, const Json& value, const std::string& expected) {
  return {[pointer, value](Json& r) { r[Json::json_pointer(pointer)] = value; },
          fmt::format("{}: found {}", pointer, expected)};
}

/// Expects that a file with a valid record is read, and that one with a damaged record in the
/// second line is refused.
void check_refusals(const Json& good, const std::function<void(const fs::path&)>& read,
                    const std::vector<Damage>& damages) {
  EXPECT_EQ(refusal(good.dump(), read), "no error");
  for (const Damage& damage : damages) {
    Json other = good, bad = good;
    if (other.contains("question_id")) other["question_id"] = 0;
    damage.change(bad);
    EXPECT_EQ(refusal(other.dump() + "\n" + bad.dump(), read), "F:2: " + damage.expected);
  }
  EXPECT_EQ(refusal("", read), "F: found an empty file, expected jsonl");
  EXPECT_EQ(refusal("[]", read), "F:1: /: found an array of 0, expected an object");
  EXPECT_EQ(refusal("\n", read), "F: found an empty file, expected jsonl");
  EXPECT_TRUE(refusal("{\"a\": ]}", read).starts_with("F:1: column 7: ")) << "bad JSON";
}

Json write_record() {
  return {{"prompt", "Write 100 words."}, {"type", "Other"}, {"length", 100}};
}

TEST(LongBenchWrite, ReadsTheLengthAskedFor) {
  const test::TemporaryDirectory directory;
  directory.write("longbench_write.jsonl", write_record().dump());
  const auto dialogues = load_checked("longbench-write", directory.path());
  ASSERT_EQ(dialogues.size(), 1u);
  EXPECT_EQ(dialogues[0].task, "writing");
  const Turn& turn = dialogues[0].turns.at(0);
  EXPECT_EQ(turn.question, "Write 100 words.");
  EXPECT_TRUE(turn.contexts.empty());
  EXPECT_EQ(turn.references, Texts{"100"});
  EXPECT_EQ(gold_answer_text(turn), "") << "the number of words asked for is no answer";
  EXPECT_EQ(turn.max_new_tokens, 32768);
}

TEST(LongBenchWrite, RefusesDamagedRecords) {
  check_refusals(write_record(),
                 [](const fs::path& f) { read_longbench_write(f, "longbench-write", 0); },
                 {without("prompt"),
                  without("type"),
                  without("length"),
                  with("/prompt", " ", "\" \", expected a prompt"),
                  with("/prompt", 1, "1, expected a string"),
                  with("/type", nullptr, "null, expected a string"),
                  with("/length", "100", "\"100\", expected an integer from 1 to 1000000"),
                  with("/length", 0, "0, expected an integer from 1 to 1000000"),
                  {[](Json& r) { r["lenght"] = 1; },
                   "/: found the unknown key \"lenght\", expected \"length\""}});
}

Json meeting() {
  const Json query = {{"query", "What of lamps?"}, {"answer", "They are red."}};
  Json specific = query;
  specific["relevant_text_span"] = Json::array({Json::array({"2", "3"})});
  Json transcript = Json::array();
  for (int i = 0; i < 6; ++i) {
    transcript.push_back({{"speaker", i % 2 == 0 ? "A" : "B"},
                          {"content", fmt::format("{} {}", i, std::string(300, 'x'))}});
  }
  return {{"meeting_transcripts", transcript},
          {"general_query_list", {query, query}},
          {"specific_query_list", {specific}},
          {"topic_list", Json::array()}};
}

TEST(QMSum, AsksTheQueriesOfAMeeting) {
  const test::TemporaryDirectory directory;
  directory.write("ALL_test.jsonl", meeting().dump());
  const auto general = load_checked("mt-qmsum-general", directory.path());
  ASSERT_EQ(general.size(), 1u);
  ASSERT_EQ(general[0].turns.size(), 2u);
  const Turn& first = general[0].turns[0];
  ASSERT_EQ(first.contexts.size(), 3u);  // two utterances of 300 bytes each
  EXPECT_EQ(first.contexts[1].source, "utterances-2-3");
  EXPECT_EQ(first.contexts[1].text,
            "A: 2 " + std::string(300, 'x') + "\nB: 3 " + std::string(300, 'x'));
  EXPECT_EQ(first.relevance.size(), 3u);
  EXPECT_TRUE(general[0].turns[1].contexts.empty());
  const auto specific = load_checked("qmsum-specific", directory.path());
  ASSERT_EQ(specific.size(), 1u);
  EXPECT_EQ(specific[0].turns.at(0).relevance, Texts{"utterances-2-3"});
  EXPECT_EQ(specific[0].turns[0].references, Texts{"They are red."});
  EXPECT_EQ(load_checked("qmsum-general", directory.path()).size(), 2u);
  EXPECT_EQ(load_checked("qmsum-general", directory.path(), {.limit = 1}).size(), 1u);
}

TEST(QMSum, TakesFilesOfAnyName) {
  const test::TemporaryDirectory directory;
  const fs::path file = directory.write("\xFF.jsonl", meeting().dump());
  EXPECT_EQ(load_checked("mt-qmsum-general", file).at(0).id, "mt-qmsum-general-001");
  EXPECT_EQ(load_checked("qmsum-general", file).at(1).id, "qmsum-general-001-2");
}

TEST(QMSum, RefusesDamagedRecords) {
  const char* spans = "/specific_query_list/0/relevant_text_span";
  check_refusals(meeting(),
                 [](const fs::path& f) { read_qmsum(f, MeetingQueries::kGeneral, "qmsum", 0); },
                 {without("meeting_transcripts"),
                  without("general_query_list"),
                  without("specific_query_list"),
                  with("/meeting_transcripts", Json::array(),
                       "an array of 0, expected at least one utterance"),
                  with("/meeting_transcripts/1", "A: hi", "\"A: hi\", expected an object"),
                  with("/meeting_transcripts/1/content", 3, "3, expected a string"),
                  with("/meeting_transcripts/1/speaker", nullptr, "null, expected a string"),
                  with("/general_query_list", "x", "\"x\", expected an array"),
                  with("/general_query_list/1/query", "", "\"\", expected a query"),
                  with("/specific_query_list/0/answer", " ", "\" \", expected an answer"),
                  with(spans, "2", "\"2\", expected an array"),
                  with("/specific_query_list/0/relevant_text_span/0", {"2"},
                       "an array of 1, expected the first and the last utterance"),
                  with("/specific_query_list/0/relevant_text_span/0", {"3", "2"},
                       "an array of 2, expected the first utterance before the last"),
                  with("/specific_query_list/0/relevant_text_span/0/1", "6",
                       "\"6\", expected the number of an utterance, below 6"),
                  with("/specific_query_list/0/relevant_text_span/0/1", "3 ",
                       "\"3 \", expected the number of an utterance, below 6"),
                  with("/specific_query_list/0/relevant_text_span/0/1", 3, "3, expected a string"),
                  {[](Json& r) { r["topic_lists"] = 1; },
                   "/: found the unknown key \"topic_lists\", expected \"topic_list\""}});
}

Json leval_record(const char* evaluation, const Json& outputs) {
  Json instructions = Json::array();
  for (std::size_t i = 0; i < outputs.size(); ++i)
    instructions.push_back(fmt::format("Question {}?", i + 1));
  return {{"instructions", instructions},
          {"outputs", outputs},
          {"input", "One line.\nAnother line.\n"},
          {"source", "made up"},
          {"evaluation", evaluation}};
}

const LEvalTask& leval_task(std::string_view name) {
  return *std::find_if(leval_tasks().begin(), leval_tasks().end(),
                       [&](const LEvalTask& task) { return task.name == name; });
}

TEST(LEval, ReadsEveryKindOfAnswer) {
  const test::TemporaryDirectory directory;
  const auto write = [&](const char* name, const Json& record) {
    const LEvalTask& task = leval_task(name);
    directory.write(leval_files(task)[0], record.dump());
    return load_checked(fmt::format("leval-{}", name), directory.path());
  };
  const auto lectures = write("coursera", leval_record("exam", {"BD", "A"}));
  ASSERT_EQ(lectures.size(), 2u);
  EXPECT_EQ(lectures[0].turns.at(0).references, Texts{"BD"});
  EXPECT_EQ(lectures[1].turns.at(0).references, Texts{"A"});
  EXPECT_EQ(lectures[1].turns[0].question, "Question 2?");
  EXPECT_EQ(lectures[1].turns[0].contexts.size(), lectures[0].turns[0].contexts.size());
  EXPECT_EQ(lectures[1].turns[0].instruction, lectures[0].turns[0].instruction);
  EXPECT_EQ(write("quality", leval_record("exam", {"(B) The A option"}))[0].turns[0].references,
            Texts{"B"});
  EXPECT_EQ(write("sci_fi", leval_record("exam", {"True [fact: False]"}))[0].turns[0].references,
            Texts{"True"});
  EXPECT_EQ(write("gsm100", leval_record("exam", {" 18 \n"}))[0].turns[0].references, Texts{"18"});
  const auto open = write("news_summ", leval_record("rouge", {"Three short\nwords."}));
  EXPECT_EQ(open[0].turns[0].question, "Question 1?\nAnswer in about 3 words.");
  EXPECT_EQ(open[0].turns[0].references, Texts{"Three short\nwords."});
  const auto several = load_checked("mt-leval-coursera", directory.path());
  ASSERT_EQ(several.size(), 1u);
  EXPECT_EQ(several[0].turns.size(), 2u);
  EXPECT_TRUE(several[0].turns[1].contexts.empty());
  EXPECT_TRUE(several[0].turns[1].instruction.empty());
  EXPECT_EQ(write("patent_summ", leval_record("LLM", {"x"})).size(), 0u);
  EXPECT_EQ(leval_tasks().size(), 20u);
}

TEST(LEval, RefusesDamagedRecords) {
  check_refusals(
      leval_record("exam", {"B", "C"}),
      [](const fs::path& f) { read_leval(f, leval_task("tpo"), "leval-tpo", 0); },
      {without("instructions"),
       without("outputs"),
       without("input"),
       without("source"),
       without("evaluation"),
       with("/input", "\n", "\"\\n\", expected a document"),
       with("/input", Json::array(), "an array of 0, expected a string"),
       with("/source", 1, "1, expected a string"),
       with("/instructions", "x", "\"x\", expected an array"),
       with("/instructions", Json::array(), "an array of 0, expected at least one instruction"),
       with("/instructions/1", " ", "\" \", expected a question"),
       with("/outputs", {"B"}, "an array of 1, expected as many outputs as instructions (2)"),
       with("/outputs/1", "E", "\"E\", expected letters from A to D"),
       with("/outputs/1", 3, "3, expected a string"),
       with("/evaluation", "f1", "\"f1\", expected \"exam\", human or LLM"),
       {[](Json& r) { r["output"] = 1; },
        "/: found the unknown key \"output\", expected \"outputs\""}});
  EXPECT_EQ(refusal(leval_record("exam", {"yes"}).dump(),
                    [](const fs::path& f) { read_leval(f, leval_task("sci_fi"), "s", 0); }),
            "F:1: /outputs/0: found \"yes\", expected True or False, and a fact");
  EXPECT_EQ(refusal(leval_record("f1", {""}).dump(),
                    [](const fs::path& f) { read_leval(f, leval_task("multidoc_qa"), "s", 0); }),
            "F:1: /outputs/0: found \"\", expected an answer");
}

Json mt_bench_record() {
  return {{"question_id", 103},
          {"category", "reasoning"},
          {"turns", {"Who?", "Why?"}},
          {"reference", {"Ann.", ""}}};
}

TEST(MtBench, ReferencesAreOptional) {
  const test::TemporaryDirectory directory;
  Json free = mt_bench_record();
  free["question_id"] = 81;
  free["category"] = "writing";
  free.erase("reference");
  directory.write("question.jsonl", free.dump() + "\n" + mt_bench_record().dump());
  const auto all = load_checked("mtbench", directory.path());
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].id, "mtbench-81");
  EXPECT_EQ(all[0].task, "writing");
  EXPECT_EQ(all[0].turns.size(), 2u);
  EXPECT_EQ(all[0].turns[1].question, "Why?");
  EXPECT_EQ(all[0].turns[1].references, Texts{""});
  EXPECT_EQ(all[0].turns[1].max_new_tokens, 1024);
  EXPECT_EQ(all[1].turns.size(), 2u);
  const auto referenced = load_checked("mtbench-reference", directory.path());
  ASSERT_EQ(referenced.size(), 1u);
  ASSERT_EQ(referenced[0].turns.size(), 1u);
  EXPECT_EQ(referenced[0].turns[0].references, Texts{"Ann."});
}

TEST(MtBench, RefusesDamagedRecords) {
  check_refusals(
      mt_bench_record(), [](const fs::path& f) { read_mt_bench(f, false, "mtbench", 0); },
      {without("question_id"),
       without("category"),
       without("turns"),
       with("/question_id", 0, "0, expected a unique id"),
       with("/question_id", "x", "\"x\", expected an integer of at least 0"),
       with("/category", 1, "1, expected a string"),
       with("/turns", "x", "\"x\", expected an array"),
       with("/turns", Json::array(), "an array of 0, expected at least one question"),
       with("/turns/1", "", "\"\", expected a question"),
       with("/reference", {"a"}, "an array of 1, expected as many references as turns (2)"),
       with("/reference/0", 1, "1, expected a string"),
       {[](Json& r) { r["turn"] = 1; }, "/: found the unknown key \"turn\", expected \"turns\""}});
}

Json scbench_record(const Json& context, const Json& answer) {
  return {{"id", 0},
          {"context", context},
          {"multi_turns",
           {{{"input", "First?"}, {"answer", answer}}, {{"input", "Then?"}, {"answer", answer}}}}};
}

const SCBenchTask& scbench_task(std::string_view name) {
  return *std::find_if(scbench_tasks().begin(), scbench_tasks().end(),
                       [&](const SCBenchTask& task) { return task.name == name; });
}

TEST(SCBench, ReadsEveryKindOfRecord) {
  const test::TemporaryDirectory directory;
  const auto write = [&](const char* name, const Json& record) {
    directory.write(fmt::format("scbench_{}.jsonl", name), record.dump());
    return load_checked(fmt::format("mt-scbench-{}", name), directory.path()).at(0);
  };
  const Dialogue pairs = write("kv", scbench_record("{\"a\": \"b\"}", "b"));
  EXPECT_EQ(pairs.id, "kv-0000");
  ASSERT_EQ(pairs.turns.size(), 2u);
  EXPECT_EQ(pairs.turns[0].contexts.at(0).text, "{\"a\": \"b\"}");
  EXPECT_TRUE(pairs.turns[1].contexts.empty());
  EXPECT_EQ(pairs.turns[1].question, "Then?");
  EXPECT_EQ(pairs.turns[1].references, Texts{"b"});
  EXPECT_EQ(pairs.turns[1].max_new_tokens, 150);
  EXPECT_EQ(load_checked("scbench-kv", directory.path()).size(), 2u);

  const Dialogue numbers = write("mf", scbench_record({3, -1, 2}, {-1}));
  EXPECT_EQ(numbers.turns[0].contexts.at(0).text, "[3, -1, 2]");
  EXPECT_EQ(numbers.turns[0].references, Texts{"-1"});
  EXPECT_EQ(write("mf", scbench_record({3}, 3)).turns[1].references, Texts{"3"});

  Json traced = scbench_record("VAR A = 1", {"A", "B"});
  traced["input"] = traced["context"];
  traced.erase("context");
  const Dialogue variables = write("vt", traced);
  EXPECT_EQ(variables.turns[0].contexts.at(0).text, "VAR A = 1");
  EXPECT_EQ(variables.turns[0].references, (Texts{"A", "B"}));
  EXPECT_EQ(variables.turns[0].gold, "A, B");

  Json book = scbench_record("A book.", "two");
  for (Json& turn : book["multi_turns"]) turn["options"] = {"one", "two", "3", "4"};
  const Dialogue choice = write("choice_eng", book);
  EXPECT_EQ(choice.turns[0].references, (Texts{"two", "B"}));
  EXPECT_EQ(choice.turns[0].gold, "two");
  EXPECT_EQ(choice.turns[0].question, "First?\nA. one\nB. two\nC. 3\nD. 4");

  Json many = scbench_record("Text.", "x");
  for (int i = 0; i < 4; ++i) many["multi_turns"].push_back(many["multi_turns"][0]);
  many["task"] = "made up";
  EXPECT_EQ(write("many_shot", many).turns.size(), 5u);
  EXPECT_EQ(scbench_tasks().size(), 13u);
}

TEST(SCBench, RefusesDamagedRecords) {
  Json book = scbench_record("A book.", "two");
  for (Json& turn : book["multi_turns"]) turn["options"] = {"one", "two", "3", "4"};
  const auto turn_without = [](const char* key) {
    return Damage{[key](Json& r) { r["multi_turns"][1].erase(key); },
                  fmt::format("/multi_turns/1: found no key \"{}\", expected one", key)};
  };
  check_refusals(
      book, [](const fs::path& f) { read_scbench(f, scbench_task("choice_eng"), "s", 0); },
      {without("context"),
       without("multi_turns"),
       turn_without("input"),
       turn_without("answer"),
       turn_without("options"),
       with("/context", " ", "\" \", expected a context"),
       with("/context", 1, "1, expected a string"),
       {[](Json& r) { r["context"] = {"x"}; }, "/context/0: found \"x\", expected an integer"},
       with("/multi_turns", "x", "\"x\", expected an array"),
       with("/multi_turns", Json::array(), "an array of 0, expected at least one turn"),
       with("/multi_turns/1", 1, "1, expected an object"),
       with("/multi_turns/1/input", "", "\"\", expected a question"),
       with("/multi_turns/1/answer", "five", "\"five\", expected one of the options"),
       with("/multi_turns/1/answer", Json::array(), "an array of 0, expected at least one answer"),
       with("/multi_turns/1/answer", true, "true, expected a text or a number"),
       with("/multi_turns/1/options", {"two"}, "an array of 1, expected four options"),
       with("/multi_turns/1/options/0", 1, "1, expected a string")});
  Json traced = scbench_record("x", {"A"});
  traced.erase("context");
  EXPECT_EQ(refusal(traced.dump(),
                    [](const fs::path& f) { read_scbench(f, scbench_task("vt"), "s", 0); }),
            "F:1: /: found no key \"input\", expected one");
}

}  // namespace
}  // namespace turnbench
