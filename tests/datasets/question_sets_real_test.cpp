// Readers of the original formats of LongBench-Write, QMSum, L-Eval and MT-Bench, on real records,
// which are not part of the project.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "common/file.h"
#include "common/json.h"
#include "datasets/leval.h"
#include "native_checks.h"
#include "tests/datasets/dialogue_text.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;
using test::load_checked;
using test::shared_data;

std::vector<Json> records_of(const fs::path& file) {
  std::vector<Json> out;
  for_each_line(file,
                [&](std::string_view line, std::size_t) { out.push_back(Json::parse(line)); });
  return out;
}

std::string document_of(const Dialogue& dialogue) {
  std::string out;
  for (const Paragraph& p : dialogue.turns.at(0).contexts) out += p.text;
  return test::without_space(out);
}

TEST(RealLongBenchWrite, EveryRecord) {
  const fs::path folder = shared_data() / "longbench_write";
  SKIP_WITHOUT(folder);
  for (const auto& [name, file] : {std::pair{"longbench-write", "longbench_write.jsonl"},
                                   std::pair{"longbench-write-en", "longbench_write_en.jsonl"}}) {
    const auto records = records_of(folder / file);
    const auto dialogues = load_checked(name, folder);
    ASSERT_EQ(dialogues.size(), records.size());
    for (std::size_t i = 0; i < records.size(); ++i) {
      EXPECT_EQ(dialogues[i].turns.at(0).question, records[i]["prompt"]);
      EXPECT_EQ(dialogues[i].turns[0].references[0], records[i]["length"].dump());
    }
  }
}

TEST(RealMtBench, EveryRecord) {
  const fs::path folder = shared_data() / "mt_bench";
  SKIP_WITHOUT(folder);
  const auto records = records_of(folder / "question.jsonl");
  const auto dialogues = load_checked("mtbench", folder);
  ASSERT_EQ(dialogues.size(), 40u);
  std::size_t referenced = 0, turns = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    ASSERT_EQ(dialogues[i].turns.size(), 2u);
    EXPECT_EQ(dialogues[i].turns[1].question, records[i]["turns"][1]);
    EXPECT_EQ(dialogues[i].task, records[i]["category"]);
    if (!records[i].contains("reference")) continue;
    ++referenced;
    for (const Json& reference : records[i]["reference"])
      turns += !reference.get<std::string>().empty();
  }
  const auto with_reference = load_checked("mtbench-reference", folder);
  EXPECT_EQ(with_reference.size(), referenced);
  std::size_t read = 0;
  for (const Dialogue& d : with_reference) read += d.turns.size();
  EXPECT_EQ(read, turns);
}

TEST(RealQMSum, EveryMeetingAndQuery) {
  const fs::path folder = shared_data() / "qmsum";
  SKIP_WITHOUT(folder);
  for (const char* domain : {"Academic", "Committee", "Product"}) {
    const auto records = records_of(folder / fmt::format("{}_test.jsonl", domain));
    std::string name = domain;
    name[0] = static_cast<char>(std::tolower(name[0]));
    const auto meetings = load_checked("mt-qmsum-" + name, folder);
    ASSERT_EQ(meetings.size(), records.size());
    std::size_t queries = 0;
    for (std::size_t i = 0; i < records.size(); ++i) {
      SCOPED_TRACE(meetings[i].id);
      std::string transcript;
      for (const Json& u : records[i]["meeting_transcripts"]) {
        transcript += u["speaker"].get<std::string>() + ":" + u["content"].get<std::string>();
      }
      EXPECT_EQ(document_of(meetings[i]), test::without_space(transcript));
      const Json &general = records[i]["general_query_list"],
                 &specific = records[i]["specific_query_list"];
      ASSERT_EQ(meetings[i].turns.size(), general.size() + specific.size());
      queries += meetings[i].turns.size();
      for (std::size_t q = 0; q < specific.size(); ++q) {
        const Turn& turn = meetings[i].turns[general.size() + q];
        EXPECT_EQ(turn.question, specific[q]["query"]);
        EXPECT_EQ(turn.references.at(0), specific[q]["answer"]);
        // The relevant paragraphs contain every utterance of the spans.
        std::string relevant;
        for (const Paragraph& p : meetings[i].turns[0].contexts) {
          const auto& sources = turn.relevance;
          if (std::find(sources.begin(), sources.end(), p.source) != sources.end())
            relevant += p.text + "\n";
        }
        for (const Json& span : specific[q]["relevant_text_span"]) {
          for (int u = std::stoi(span[0].get<std::string>());
               u <= std::stoi(span[1].get<std::string>()); ++u) {
            const std::string text =
                records[i]["meeting_transcripts"][u]["content"].get<std::string>();
            EXPECT_NE(relevant.find(trim(text)), std::string::npos) << u;
          }
        }
        EXPECT_LT(turn.relevance.size(), meetings[i].turns[0].contexts.size());
      }
    }
    EXPECT_EQ(load_checked("qmsum-" + name, folder).size(), queries);
  }
}

TEST(RealLEval, EveryDocumentAndQuestion) {
  const fs::path folder = shared_data() / "leval";
  SKIP_WITHOUT(folder);
  std::size_t files = 0;
  for (const LEvalTask& task : leval_tasks()) {
    const fs::path file = folder / leval_files(task)[0];
    if (!fs::exists(file)) continue;
    ++files;
    const auto records = records_of(file);
    const std::string name = fmt::format("leval-{}", task.name);
    const auto documents = load_checked("mt-" + name, folder);
    ASSERT_EQ(documents.size(), records.size());
    std::size_t questions = 0;
    for (std::size_t i = 0; i < records.size(); ++i) {
      SCOPED_TRACE(documents[i].id);
      EXPECT_EQ(document_of(documents[i]),
                test::without_space(records[i]["input"].get<std::string>()));
      const Json& instructions = records[i]["instructions"];
      ASSERT_EQ(documents[i].turns.size(), instructions.size());
      questions += instructions.size();
      for (std::size_t q = 0; q < instructions.size(); ++q) {
        const Turn& turn = documents[i].turns[q];
        EXPECT_TRUE(turn.question.starts_with(trim(instructions[q].get<std::string>())));
        const std::string output = records[i]["outputs"][q];
        if (task.answer == LEvalAnswer::kLetters) {
          EXPECT_NE(output.find(turn.references[0]), std::string::npos);
        } else {
          EXPECT_EQ(trim(turn.references[0]), trim(output));
        }
      }
    }
    const auto single = load_checked(name, folder);
    EXPECT_EQ(single.size(), questions);
    EXPECT_EQ(document_of(single.back()), document_of(documents.back()));
  }
  EXPECT_EQ(files, 8u);
}

}  // namespace
}  // namespace turnbench
