// Native sets and official prompts, from the manifest to the store.

#include <gtest/gtest.h>

#include "tests/cli/program.h"
#include "tests/harness/store/store_dump.h"

namespace turnbench::test {
namespace {

/// A run of `datasets`; returns the refusal or the number of its records.
class QuestionSets : public testing::Test {
 protected:
  QuestionSets() {
    directory_.write(
        "tpo.jsonl",
        R"({"instructions": ["One?", "Two?"], "outputs": ["A", "C"], "input": "A text.",)"
        R"( "source": "x", "evaluation": "exam"})");
    directory_.write("trec.jsonl",
                     R"({"input": "Question: red?\nType:", "context": "Question: a?\nType: b\n",)"
                     R"( "answers": ["b"], "length": 9, "dataset": "trec", "language": "en",)"
                     R"( "all_classes": ["b", "c"], "_id": "1"})");
  }

  Finished run(const std::string& datasets, const std::string& position) {
    const std::string manifest = directory_.write(
        "m.json", R"({"name": "m", "models": ["tiny"], "methods": ["full"], "max_new_tokens": 4,)"
                  R"("positions": [")" +
                      position + R"("], "datasets": [)" + datasets + "]}");
    return run_program({"run", manifest, "--db", directory_.path("m.db")});
  }
  std::int64_t count(const std::string& query) const {
    return test::count(directory_.path("m.db"), query);
  }

  TemporaryDirectory directory_;
};

TEST_F(QuestionSets, OneDialogueForAQuestionOrForADocument) {
  const Finished done = run(
      R"({"name": "leval-tpo", "source": "tpo.jsonl"}, {"name": "mt-leval-tpo", "source": "tpo.jsonl"})",
      "begin");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(count("SELECT count(*) FROM record"), 4);
  EXPECT_EQ(count("SELECT count(*) FROM record WHERE turn = 1"), 1);
  EXPECT_EQ(count("SELECT count(*) FROM score WHERE metric = 'leval_letter'"), 4);
}

TEST_F(QuestionSets, OfficialPrompts) {
  const std::string trec = R"({"name": "trec", "source": "trec.jsonl", "official_prompts": true})";
  const Finished without = run(trec, "end");
  EXPECT_EQ(without.code, 2);
  EXPECT_NE(without.err.find("found no prompt of trec"), std::string::npos) << without.err;
  directory_.write("dataset2prompt.json", R"({"trec": "Tell.\n{context}{input}"})");
  const Finished done = run(trec, "end");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(count("SELECT count(*) FROM record WHERE status = 'ok'"), 1);
  EXPECT_EQ(count("SELECT count(*) FROM dialogue WHERE json LIKE '%\"layout\":\"plain\"%'"), 1);
  const Finished moved = run(trec, "begin");
  EXPECT_EQ(moved.code, 2);
  EXPECT_NE(moved.err.find("trec: found the position begin"), std::string::npos) << moved.err;
  const Finished other =
      run(R"({"name": "leval-tpo", "source": "tpo.jsonl", "official_prompts": true})", "end");
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("leval-tpo: found official prompts"), std::string::npos) << other.err;
}

TEST_F(QuestionSets, LeavesOutQuestionsOfAFile) {
  directory_.write(
      "locomo10.json",
      R"([{"sample_id": "c", "conversation": {"speaker_a": "Ann", "speaker_b": "Bob",)"
      R"( "session_1_date_time": "1 May", "session_1": [{"speaker": "Ann", "dia_id": "D1:1",)"
      R"( "text": "My lamp is red."}]}, "qa": [{"question": "Which colour?", "answer": "red",)"
      R"( "evidence": ["D1:1"], "category": 4}, {"question": "What is it?", "answer": "lamp",)"
      R"( "evidence": [], "category": 4}]}])");
  directory_.write("wrong.txt", "c_qa1\n");
  const Finished done = run(
      R"({"name": "mt-locomo-single-hop", "source": "locomo10.json", "leave_out": "wrong.txt"})",
      "middle");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(count("SELECT count(*) FROM record WHERE status = 'ok'"), 1);
  EXPECT_EQ(count("SELECT count(*) FROM score WHERE metric = 'locomo_f1'"), 1);
  const Finished other =
      run(R"({"name": "leval-tpo", "source": "tpo.jsonl", "leave_out": "wrong.txt"})", "end");
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("leval-tpo: found questions to leave out"), std::string::npos)
      << other.err;
}

}  // namespace
}  // namespace turnbench::test
