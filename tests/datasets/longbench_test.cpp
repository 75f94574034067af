#include "datasets/longbench.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/random.h"
#include "common/text.h"
#include "datasets/fill_template.h"
#include "longbench_samples.h"

namespace turnbench {
namespace {

using test::message_of;
using test::TemporaryDirectory;

std::string native_file(std::string_view dataset, const std::vector<LongBenchRecord>& records,
                        const std::string& line_end = "\n") {
  std::string out;
  for (const auto& record : records) out += test::to_native_line(dataset, record) + line_end;
  return out;
}

/// The official prompt of a record, assembled from the parts of its dialogue.
std::string prompt_of(std::string_view name, const LongBenchRecord& record,
                      std::string_view prompt) {
  const Turn turn = official_dialogue(name, record, prompt).turns.at(0);
  return turn.instruction + turn.contexts.at(0).text + turn.question;
}

TEST(LongBench, ReadsRecordsOfEveryTask) {
  const TemporaryDirectory directory;
  for (const LongBenchTask& task : longbench_tasks()) {
    const auto records = test::make_records(task, 3);
    const std::string name(task.name);
    directory.write(name + ".jsonl", native_file(name, records));
    const auto read = read_longbench(directory.path(), name);
    ASSERT_EQ(read.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(test::to_native_line(name, read[i]), test::to_native_line(name, records[i]));
    }
  }
}

TEST(LongBench, LineEndsAndAMissingLastOneDoNotMatter) {
  const TemporaryDirectory directory;
  const auto records = test::make_records(find_longbench_task("qasper", "test"), 2);
  const auto windows = directory.write("windows.jsonl", native_file("qasper", records, "\r\n"));
  std::string text = native_file("qasper", records);
  text.pop_back();
  const auto open = directory.write("open.jsonl", text);
  for (const auto& path : {windows, open}) {
    const auto read = read_longbench(path, "qasper");
    ASSERT_EQ(read.size(), 2u);
    EXPECT_EQ(read[1].context, records[1].context);
  }
}

TEST(LongBench, EscapesAreDecoded) {
  const TemporaryDirectory directory;
  const std::string line =
      R"({"input":"\u00e9\ud83d\ude00 \"q\"","context":"a\r\nb\tc\/\\","answers":["\u4e2d"],"length":1,)"
      R"("dataset":"qasper","language":"en","all_classes":null,"_id":"1"})";
  const auto read = read_longbench(directory.write("x.jsonl", line), "qasper");
  EXPECT_EQ(read[0].input, "é😀 \"q\"");
  EXPECT_EQ(read[0].context, "a\r\nb\tc/\\");
  EXPECT_EQ(read[0].answers[0], "中");
}

TEST(LongBench, FindsTheFileOfATask) {
  const TemporaryDirectory directory;
  const auto in_data = directory.write("data/qasper.jsonl", "x");
  const auto in_native = directory.write("native/lcc.jsonl", "x");
  const auto here = directory.write("trec_e.jsonl", "x");
  EXPECT_EQ(find_longbench_file(directory.path(), "qasper"), in_data);
  EXPECT_EQ(find_longbench_file(directory.path(), "lcc"), in_native);
  EXPECT_EQ(find_longbench_file(directory.path(), "trec_e"), here);
  EXPECT_EQ(find_longbench_file(in_data, "anything"), in_data);
  EXPECT_EQ(message_of([&] { find_longbench_file(directory.path(), "samsum"); }),
            directory.path().string() +
                ": found none of samsum.jsonl, data/samsum.jsonl, native/samsum.jsonl, "
                "recovered/samsum.jsonl, expected one");
}

TEST(LongBench, EFilesHaveEitherName) {
  const TemporaryDirectory directory;
  auto records = test::make_records(find_longbench_task("qasper", "test"), 2);
  records[1].id = "other";
  directory.write("qasper_e.jsonl", test::to_native_line("qasper", records[0]) + "\n" +
                                        test::to_native_line("qasper_e", records[1]) + "\n");
  EXPECT_EQ(read_longbench(directory.path(), "qasper_e").size(), 2u);
  EXPECT_EQ(longbench_dialogue("qasper_e", records[0]).dataset, "qasper_e");
}

TEST(LongBench, RepeatedIdsBecomeUnique) {
  const TemporaryDirectory directory;
  auto records = test::make_records(find_longbench_task("qasper", "test"), 3);
  for (auto& record : records) record.id = "same";
  const auto read =
      read_longbench(directory.write("x.jsonl", native_file("qasper", records)), "qasper");
  EXPECT_EQ(read[0].id, "same");
  EXPECT_EQ(read[1].id, "same~2");
  EXPECT_EQ(read[2].id, "same~3");
}

TEST(LongBench, UnknownTasksAreRefusedWithTheNearest) {
  EXPECT_EQ(message_of([] { find_longbench_task("hotpot_qa", "m.json: /dataset"); }),
            "m.json: /dataset: found the LongBench task \"hotpot_qa\", expected \"hotpotqa\"");
  EXPECT_EQ(std::count_if(longbench_tasks().begin(), longbench_tasks().end(),
                          [](const LongBenchTask& task) { return task.in_longbench_e; }),
            13);
  EXPECT_NE(message_of([] { find_longbench_task("musique_e", "x"); }), "no error")
      << "musique is not part of LongBench-E";
}

/// A malformed second line, in which {good} is replaced by a valid line, and part of the expected
/// message.
struct BadFile {
  const char* name;
  std::string line;
  const char* expected;
};

std::string good_line() {
  return test::to_native_line("trec",
                              test::make_records(find_longbench_task("trec", "test"), 1)[0]);
}

std::string changed(const char* key, const char* value) {
  auto json = nlohmann::json::parse(good_line());
  if (value == nullptr) {
    json.erase(key);
  } else {
    json[key] = nlohmann::json::parse(value);
  }
  return json.dump();
}

std::string replaced(const std::string& from, const std::string& to) {
  std::string line = good_line();
  const std::size_t at = line.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return line.replace(at, from.size(), to);
}

std::vector<BadFile> bad_files() {
  const std::string good = good_line();
  const std::string question = "Where";  // the start of `input`
  std::vector<BadFile> out = {
      {"truncated", good.substr(0, good.size() / 2), "the end of the text"},
      {"only a brace", "{", "the end of the text"},
      {"no JSON at all", "hello", "valid JSON"},
      {"two documents", good + " " + good, "valid JSON"},
      {"trailing comma", good.substr(0, good.size() - 1) + ",}", "valid JSON"},
      {"byte order mark", "\xEF\xBB\xBF" + good, "found a byte order mark"},
      {"an array", "[1, 2]", "/: found an array of 2, expected an object"},
      {"a string", "\"x\"", "/: found \"x\", expected an object"},
      {"bad UTF-8", replaced(question, "\xFFx"), "valid JSON"},
      {"overlong UTF-8", replaced(question, "\xC0\xAF"), "valid JSON"},
      {"surrogate in UTF-8", replaced(question, "\xED\xA0\x80"), "valid JSON"},
      {"cut UTF-8", replaced(question, "\xE4\xB8"), "valid JSON"},
      {"lone high surrogate", replaced(question, "\\ud83d"), "valid JSON"},
      {"lone low surrogate", replaced(question, "\\ude00"), "valid JSON"},
      {"bad escape", replaced(question, "\\x41"), "valid JSON"},
      {"raw control character", replaced(question, "a\tb"), "valid JSON"},
      {"NUL byte", replaced(question, std::string("a\0b", 3)), "valid JSON"},
      {"NaN", replaced("\"length\":1000", "\"length\":NaN"), "valid JSON"},
      {"huge number", replaced("\"length\":1000", "\"length\":1e999"), "out of range"},
      {"duplicate key", good.substr(0, good.size() - 1) + ",\"input\":\"x\"}",
       "found the key \"input\" twice in one object"},
      {"huge nesting", std::string(100000, '['), "found nesting deeper than"},
      {"nesting in a field",
       replaced("\"answers\":[",
                "\"answers\":[" + std::string(300, '[') + std::string(300, ']') + ","),
       "found nesting deeper than"},
      {"unknown field", good.substr(0, good.size() - 1) + ",\"answer\":\"x\"}",
       "/: found the unknown key \"answer\", expected \"answers\""},
      {"context is null", changed("context", "null"), "/context: found null, expected a string"},
      {"context is blank", changed("context", "\" \""), "/context: found \" \", expected a text"},
      {"input is a list", changed("input", "[\"x\"]"),
       "/input: found an array of 1, expected a string"},
      {"no question", changed("input", "\"\""), "/input: found \"\", expected a question"},
      {"answers are a string", changed("answers", "\"x\""),
       "/answers: found \"x\", expected an array"},
      {"no answer", changed("answers", "[]"),
       "/answers: found an array of 0, expected at least one answer"},
      {"an answer is a number", changed("answers", "[\"x\", 3]"),
       "/answers/1: found 3, expected a string"},
      {"length is a string", changed("length", "\"9\""),
       "/length: found \"9\", expected an integer"},
      {"length is a fraction", changed("length", "1.5"), "/length: found 1.5, expected an integer"},
      {"length is negative", changed("length", "-1"), "/length: found -1, expected an integer"},
      {"another task", changed("dataset", "\"lsht\""),
       "/dataset: found \"lsht\", expected \"trec\""},
      {"classes are an object", changed("all_classes", "{}"), "/all_classes: found an object"},
      {"no classes", changed("all_classes", "null"),
       "/all_classes: found null, expected the classes"},
      {"empty id", changed("_id", "\"\""), "/_id: found \"\", expected an id"},
  };
  for (const char* field :
       {"input", "context", "answers", "length", "dataset", "language", "all_classes", "_id"}) {
    out.push_back({"missing field", changed(field, nullptr), field});
  }
  return out;
}

TEST(LongBench, RejectsInvalidRecords) {
  const TemporaryDirectory directory;
  for (const BadFile& bad : bad_files()) {
    const auto path = directory.write("bad.jsonl", good_line() + "\n" + bad.line + "\n");
    const std::string message = message_of([&] { read_longbench(path, "trec"); });
    EXPECT_TRUE(message.starts_with(path + ":2: ")) << bad.name << ": " << message;
    EXPECT_NE(message.find(bad.expected), std::string::npos) << bad.name << ": " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << bad.name << ": " << message;
    EXPECT_LT(message.size(), 500u) << bad.name;
  }
}

TEST(LongBench, RejectsOtherFiles) {
  const TemporaryDirectory directory;
  EXPECT_NE(message_of([&] {
              read_longbench(directory.write("e.jsonl", ""), "trec");
            }).find("found an empty file"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              for_each_longbench_record(directory.path(), "trec", [](LongBenchRecord&&) {});
            }).find("found a directory, expected a file"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              read_longbench(directory.path() / "none.jsonl", "trec");
            }).find("none.jsonl: found "),
            std::string::npos);
}

TEST(LongBench, RandomDamageIsRefusedOrHarmless) {
  const TemporaryDirectory directory;
  Random random(3);
  const std::string good = good_line();
  for (int round = 0; round < 300; ++round) {
    std::string line = good;
    for (int i = 0; i < 3; ++i) {
      line[random.below(line.size())] = static_cast<char>(random.below(256));
    }
    const auto path = directory.write("bad.jsonl", line);
    try {
      read_longbench(path, "trec");
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kInput);
      EXPECT_TRUE(std::string(e.what()).starts_with(path)) << e.what();
    }
  }
}

TEST(LongBench, SingleTurnDialogues) {
  for (const LongBenchTask& task : longbench_tasks()) {
    const LongBenchRecord record = test::make_records(task, 1)[0];
    const Dialogue dialogue = longbench_dialogue(task.name, record);
    EXPECT_EQ(dialogue.id, record.id);
    EXPECT_EQ(dialogue.dataset, task.name);
    EXPECT_EQ(dialogue.task, task.kind);
    EXPECT_EQ(dialogue.metric, task.metric);
    ASSERT_EQ(dialogue.turns.size(), 1u);
    const Turn& turn = dialogue.turns[0];
    EXPECT_GT(turn.contexts.size(), 1u) << task.name;
    for (const Paragraph& paragraph : turn.contexts) EXPECT_EQ(paragraph.source, record.id);
    EXPECT_EQ(turn.relevance, std::vector<std::string>{record.id});
    EXPECT_EQ(turn.references, record.answers);
    EXPECT_EQ(turn.gold, record.answers[0]);
    EXPECT_EQ(turn.max_new_tokens, task.max_new_tokens);
    EXPECT_EQ(turn.classes, record.classes);
    EXPECT_FALSE(turn.instruction.empty());
    if (record.input.empty()) {
      EXPECT_FALSE(turn.question.empty());
      EXPECT_EQ(turn.question.find('{'), std::string::npos);
    } else {
      EXPECT_EQ(turn.question, record.input);
    }
  }
}

TEST(LongBench, TemplatesAreFilledAsPythonDoes) {
  const TemplateValues values = {{"context", "C {input}"}, {"input", "I"}};
  EXPECT_EQ(fill_template("a {context}{input}\n{{x}} {input}", values, "t"), "a C {input}I\n{x} I");
  EXPECT_EQ(fill_template("", values, "t"), "");
  for (const char* bad : {"{", "}", "a {contxt} b", "{}", "{context", "{context }", "} {"}) {
    EXPECT_TRUE(message_of([&] {
                  fill_template(bad, values, "p.json: /trec");
                }).starts_with("p.json: /trec: found \""))
        << bad;
  }
}

TEST(LongBench, MetricsAreThoseOfTheOfficialEvaluation) {
  const std::map<std::string_view, std::vector<std::string_view>> official = {
      {"qa_f1",
       {"narrativeqa", "qasper", "multifieldqa_en", "hotpotqa", "2wikimqa", "musique", "triviaqa"}},
      {"qa_f1_zh", {"multifieldqa_zh"}},
      {"rouge", {"gov_report", "qmsum", "multi_news", "samsum"}},
      {"rouge_zh", {"dureader", "vcsum"}},
      {"classification", {"trec", "lsht"}},
      {"retrieval", {"passage_retrieval_en"}},
      {"retrieval_zh", {"passage_retrieval_zh"}},
      {"count", {"passage_count"}},
      {"code_sim", {"lcc", "repobench-p"}}};
  std::size_t count = 0;
  for (const auto& [metric, tasks] : official) {
    for (std::string_view name : tasks) EXPECT_EQ(find_longbench_task(name, "test").metric, metric);
    count += tasks.size();
  }
  EXPECT_EQ(count, longbench_tasks().size());
}

TEST(LongBench, TheTableAgreesWithTheOfficialConfiguration) {
  const auto config = test::shared_longbench() / "config";
  if (!std::filesystem::exists(config)) GTEST_SKIP() << "no official configuration at " << config;
  const Json lengths = parse_json(read_file(config / "dataset2maxlen.json"), "dataset2maxlen.json");
  const auto prompts = load_official_prompts(test::shared_longbench());
  EXPECT_EQ(lengths.size(), longbench_tasks().size());
  EXPECT_EQ(prompts.size(), longbench_tasks().size());
  for (const LongBenchTask& task : longbench_tasks()) {
    const std::string name(task.name);
    EXPECT_EQ(lengths.at(name), task.max_new_tokens) << name;
    // A task has a default question if its official prompt has no {input}.  repobench-p has both,
    // because its question continues the context.
    const bool asks = prompts.at(name).find("{input}") != std::string::npos;
    EXPECT_EQ(asks, task.wording.default_question.empty() || name == "repobench-p") << name;
  }
}

TEST(LongBench, RealFilesAreReadWhole) {
  const auto shared = test::shared_longbench();
  if (!std::filesystem::exists(shared)) GTEST_SKIP() << "no real files at " << shared;
  const auto prompts = load_official_prompts(shared);
  int files = 0;
  for (const LongBenchTask& task : longbench_tasks()) {
    const std::string name(task.name);
    try {
      find_longbench_file(shared, name);
    } catch (const Error&) {
      continue;
    }
    ++files;
    std::set<std::string> ids;
    for (const LongBenchRecord& record : read_longbench(shared, name)) {
      EXPECT_TRUE(ids.insert(record.id).second);
      const Dialogue dialogue = longbench_dialogue(name, record);
      std::string text, context;
      for (const Paragraph& paragraph : dialogue.turns[0].contexts) text += paragraph.text;
      for (char c : text)
        if (!std::isspace(static_cast<unsigned char>(c))) context += c;
      std::string expected;
      for (char c : record.context)
        if (!std::isspace(static_cast<unsigned char>(c))) expected += c;
      EXPECT_EQ(context, expected) << record.id;
      EXPECT_GT(dialogue.turns[0].contexts.size(), 1u) << record.id;
      const std::string prompt = prompt_of(name, record, prompts.at(name));
      const std::string& form = prompts.at(name);
      EXPECT_TRUE(prompt.starts_with(form.substr(0, form.find('{')) + record.context));
      EXPECT_TRUE(prompt.ends_with(form.substr(form.rfind('}') + 1)));
    }
  }
  EXPECT_EQ(files, 18);
}

}  // namespace
}  // namespace turnbench
