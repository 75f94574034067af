// history=dense, past_positions and only, through the program.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace turnbench::test {
namespace {

/// Chats before a question of one of two types.
constexpr const char* kChats = R"([
  {"question_id": "a", "question_type": "multi-session", "question": "what is the color of alice ?",
   "answer": "red", "question_date": "day 9", "haystack_dates": ["day 1", "day 2"],
   "haystack_session_ids": ["s", "t"],
   "haystack_sessions": [
     [{"role": "user", "content": "alice has the color red ."},
      {"role": "assistant", "content": "yes ."}],
     [{"role": "user", "content": "bob has the color blue ."},
      {"role": "assistant", "content": "fine ."}]],
   "answer_session_ids": ["s"]},
  {"question_id": "b", "question_type": "knowledge-update", "question": "what is the color of bob ?",
   "answer": "blue", "question_date": "day 9", "haystack_dates": ["day 1"],
   "haystack_session_ids": ["s"],
   "haystack_sessions": [[{"role": "user", "content": "bob has the color blue ."},
                          {"role": "assistant", "content": "yes ."}]],
   "answer_session_ids": ["s"]}])";

class DenseHistoryManifest : public testing::Test {
 protected:
  Json manifest(const std::string& only = "multi-session") {
    Json dataset = {{"name", "mt-longmemeval-s"},
                    {"label", "chats"},
                    {"source", directory_.write("longmemeval_s.json", kChats)}};
    if (!only.empty()) dataset["only"] = only;
    return {{"name", "dense"},          {"models", "tiny"},
            {"datasets", {dataset}},    {"methods", {"full", "snapkv:budget=16,window=4"}},
            {"history", "dense"},       {"answers", "gold"},
            {"max_prompt_tokens", 512}, {"max_new_tokens", 4}};
  }
  Finished run(const Json& manifest) {
    return run_program({"run", directory_.write("m.json", manifest.dump()), "--db", db_,
                        "--workers", "1", "--threads", "1"});
  }
  void refused(const Json& manifest, const char* expected) {
    const Finished got = run(manifest);
    EXPECT_EQ(got.code, 2);
    EXPECT_NE(got.err.find(expected), std::string::npos) << got.err;
  }

  TemporaryDirectory directory_;
  std::string db_ = directory_.path("a.db");
};

TEST_F(DenseHistoryManifest, ReportsTheLastTurn) {
  const Finished first = run(manifest());
  ASSERT_EQ(first.code, 0) << first.err;
  const Json report = run_program({"report", db_, "--json"}).json();
  ASSERT_EQ(report["cells"].size(), 2u);
  for (const Json& cell : report["cells"]) {
    EXPECT_EQ(cell["dataset"], "chats");
    EXPECT_EQ(cell["n"], 1);
    EXPECT_EQ(cell["without_value"], 2) << "of three turns";
    EXPECT_EQ(cell["failed"], 0);
  }
  const Finished text = run_program({"report", db_});
  EXPECT_NE(text.out.find("4 turns have no value: they were not asked"), std::string::npos)
      << text.out;
  const Finished again = run(manifest());
  EXPECT_NE(again.err.find("0 units done"), std::string::npos) << again.err;
  const Json status = run_program({"status", db_, "--json"}).json();
  EXPECT_EQ(status[0]["pending"], 0);
}

// The answers to one type of questions are reused for all types.
TEST_F(DenseHistoryManifest, SelectsOneTypeOfQuestions) {
  ASSERT_EQ(run(manifest()).code, 0);
  Json all = manifest("");
  all["name"] = "all";
  const Finished second = run(all);
  ASSERT_EQ(second.code, 0) << second.err;
  const Json report = run_program({"report", db_, "--experiment", "all", "--json"}).json();
  for (const Json& cell : report["cells"]) EXPECT_EQ(cell["n"], 2);
  refused(manifest("multi-sesion"),
          "dataset chats: found no dialogue of the task \"multi-sesion\" (\"only\"), expected");
}

TEST_F(DenseHistoryManifest, RejectsMeaninglessSettings) {
  Json own = manifest();
  own["answers"] = {"gold", "own"};
  refused(own, "m.json: /answers: found own with the history dense, expected gold");
  own.erase("answers");
  refused(own, "m.json: /answers: found own with the history dense, expected gold");
  Json fidelity = manifest();
  fidelity["fidelity"] = "full";
  refused(fidelity, "m.json: /fidelity: found full with the history dense, expected none");
  for (const char* method : {"infllm", "specontext:budget=64,feat=prev"}) {
    Json every_token = manifest();
    every_token["methods"] = {method};
    refused(every_token, fmt::format("m.json: /history: found dense with the method {}, expected "
                                     "another history",
                                     method)
                             .c_str());
  }
}

TEST_F(DenseHistoryManifest, AllowsPromptsBeyondTheModelsPositions) {
  Json long_prompts = manifest();
  long_prompts["max_prompt_tokens"] = 9000;
  refused(long_prompts, "expected at most the 8192 positions of tiny");
  long_prompts["past_positions"] = true;
  const Finished got = run(long_prompts);
  EXPECT_EQ(got.code, 0) << got.err;
  const Finished html = run_program({"report", db_, "--format", "html"});
  EXPECT_NE(html.out.find("past_positions"), std::string::npos) << "the protocol card says so";
}

// A chat has no contexts to truncate: its turns may have different lengths.
TEST_F(DenseHistoryManifest, LimitsTheWholeChat) {
  Json one_long_turn = manifest();
  std::string text = kChats;
  const std::string line = "alice has the color red .";
  std::string longer = line;
  for (int i = 0; i < 20; ++i) longer += " " + line;
  text.replace(text.find(line), line.size(), longer);
  directory_.write("longmemeval_s.json", text);
  one_long_turn["max_prompt_tokens"] = 300;
  const Finished fits = run(one_long_turn);
  EXPECT_EQ(fits.code, 0) << fits.err;
  one_long_turn["max_prompt_tokens"] = 60;
  const Finished not_at_all = run(one_long_turn);
  EXPECT_EQ(not_at_all.code, 1) << not_at_all.err;
}

}  // namespace
}  // namespace turnbench::test
