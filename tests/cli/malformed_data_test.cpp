// Damaged records and predictions, through the command line.

#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace turnbench::test {
namespace {

Json good_record() {
  return {
      {"input", "Who?"},        {"context", "Passage 1:\nTitle\nOne.\n\nPassage 2:\nTitle\nTwo."},
      {"answers", {"One"}},     {"length", 9},
      {"dataset", "hotpotqa"},  {"language", "en"},
      {"all_classes", nullptr}, {"_id", "a"}};
}

Arguments dialogues(const std::string& source, const std::string& dataset = "hotpotqa") {
  return {"dialogues", "--dataset", dataset, "--source", source};
}

Malformed records(const char* name, std::string text, const char* expected) {
  return {name, [text](const TemporaryDirectory& d) { return dialogues(d.write("r.jsonl", text)); },
          expected};
}

/// A valid record, and one that `damage` changed.
Malformed record(const char* name, std::function<void(Json&)> damage, const char* expected) {
  Json bad = good_record();
  bad["_id"] = "b";
  damage(bad);
  return records(name, good_record().dump() + "\n" + bad.dump() + "\n", expected);
}

TEST(MalformedData, LongBench) {
  const TemporaryDirectory d;
  const Finished good = run_program(dialogues(d.write("r.jsonl", good_record().dump())));
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_EQ(good.lines().size(), 1u);

  const std::string line = good_record().dump();
  const Malformed cases[] = {
      {"no such file", [](const TemporaryDirectory& d) { return dialogues(d.path("x.jsonl")); },
       "x.jsonl: found no readable file (No such file or directory), expected one"},
      {"directory without the file",
       [](const TemporaryDirectory& d) { return dialogues(d.path("")); },
       "found none of hotpotqa.jsonl, data"},
      records("empty", "", "r.jsonl: found an empty file"),
      records("cut", line.substr(0, line.size() / 2), "r.jsonl:1: column"),
      records("blank lines", "\n \r\n", "r.jsonl: found an empty file"),
      records("two records in a line", line + line, "expected valid JSON"),
      records("a list", "[" + line + "]", "r.jsonl:1: /: found an array of 1"),
      records("byte order mark within", line + "\n\xef\xbb\xbf" + line,
              "r.jsonl:2: found a byte order mark"),
      records("NUL byte", line + "\n" + std::string("\0\n", 2),
              "r.jsonl:2: column 1: found '\\x00'"),
      records("no UTF-8", "{\"input\": \"\xc0\xaf\"}", "r.jsonl:1: column"),
      records("half a surrogate", R"({"input": "\ud800"})", "r.jsonl:1: column"),
      records("deep nesting", std::string(100000, '['), "nesting deeper than 256"),
      records("one key twice", "{\"input\": \"\", \"input\": \"\"}", "the key \"input\" twice"),
      record(
          "key is missing", [](Json& r) { r.erase("answers"); },
          "r.jsonl:2: /: found no key \"answers\""),
      record(
          "unknown key", [](Json& r) { r["answer"] = "x"; }, "\"answer\", expected \"answers\""),
      record(
          "no answer", [](Json& r) { r["answers"] = Json::array(); },
          "/answers: found an array of 0"),
      record(
          "answers are text", [](Json& r) { r["answers"] = "One"; }, "/answers: found \"One\""),
      record(
          "answer is a number", [](Json& r) { r["answers"] = {1}; }, "/answers/0: found 1"),
      record(
          "no context", [](Json& r) { r["context"] = " \n"; }, "/context: found"),
      record(
          "no question", [](Json& r) { r["input"] = ""; }, "/input: found \"\""),
      record(
          "no id", [](Json& r) { r["_id"] = ""; }, "/_id: found \"\""),
      record(
          "negative length", [](Json& r) { r["length"] = -9; }, "/length: found -9"),
      record(
          "another dataset", [](Json& r) { r["dataset"] = "qasper"; },
          "/dataset: found \"qasper\""),
      {"classification without classes",
       [](const TemporaryDirectory& d) {
         Json r = good_record();
         r["dataset"] = "trec";
         return dialogues(d.write("r.jsonl", r.dump()), "trec");
       },
       "/all_classes: found null"},
      {"turns of a single-turn dataset",
       [line](const TemporaryDirectory& d) {
         Arguments arguments = dialogues(d.write("r.jsonl", line));
         arguments.insert(arguments.end(), {"--turns", "3"});
         return arguments;
       },
       "found 3 turns, expected 1, or the dataset mt-hotpotqa"},
  };
  expect_refusals(cases);
}

Malformed predictions(const char* name, std::string text, const char* expected,
                      Arguments options = {"--metric", "qa_f1"}) {
  return {name,
          [text, options](const TemporaryDirectory& d) {
            Arguments arguments = {"score", d.write("p.jsonl", text)};
            arguments.insert(arguments.end(), options.begin(), options.end());
            return arguments;
          },
          expected};
}

TEST(MalformedData, Predictions) {
  const std::string good = R"({"prediction": "a", "references": ["a"]})"
                           "\n";
  const Malformed cases[] = {
      predictions("empty", "", "p.jsonl: found no line"),
      predictions("cut", good + "{\"prediction\"", "p.jsonl: line 2: column"),
      predictions("a list", "[]", "line 1: /: found an array of 0"),
      predictions("no prediction", good + R"({"references": ["a"]})",
                  "line 2: /: found an object with 1 keys, expected one of the keys prediction"),
      predictions("null", good + R"({"prediction": null, "references": ["a"]})",
                  "line 2: /prediction: found null, expected a value"),
      predictions("prediction is a number", R"({"prediction": 1, "references": ["a"]})",
                  "/prediction: found 1, expected a string"),
      predictions("no references", R"({"prediction": "a"})", "expected one of the keys references"),
      predictions("empty references", R"({"prediction": "a", "references": []})",
                  "/references: found an array of 0"),
      predictions("reference is an object", R"({"prediction": "a", "references": [{}]})",
                  "/references/0: found an object"),
      predictions("classes are text", R"({"prediction": "a", "references": ["a"], "classes": "a"})",
                  "/classes: found \"a\""),
      predictions("no UTF-8", "{\"prediction\": \"\xed\xa0\x80\", \"references\": [\"a\"]}",
                  "line 1: column"),
      predictions("NUL byte", std::string("\0", 1) + good, "line 1: column 1: found '\\x00'"),
      predictions("references nested too deep", R"({"prediction": "a", "references": [[[["a"]]]]})",
                  "/references/0/0: found an array of 1"),
      predictions("no classes for a classification", good, "p.jsonl: line 1",
                  {"--metric", "classification"}),
      predictions("no length for LongBench-E", good, "line 1: found no length",
                  {"--dataset", "hotpotqa_e"}),
      predictions("unknown metric", good,
                  "--metric: found the metric \"qa_f11\", expected \"qa_f1\"",
                  {"--metric", "qa_f11"}),
      predictions("unknown dataset", good, "\"hotpotqaa\", expected \"hotpotqa\"",
                  {"--dataset", "hotpotqaa"}),
      predictions("neither metric nor dataset", good, "found neither --metric nor --dataset", {}),
      {"missing file",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"score", "--metric", "qa_f1", d.path("x.jsonl")};
       },
       "x.jsonl: found no readable file (No such file or directory), expected one"},
  };
  expect_refusals(cases);
}

}  // namespace
}  // namespace turnbench::test
