#include "datasets/jsonl.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "longbench_samples.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

// Some editors write a byte order mark at the beginning of a file.  Elsewhere it makes a line
// invalid JSON.
TEST(JsonLines, AByteOrderMarkIsSkippedInFrontOfTheFirstLine) {
  const test::TemporaryDirectory directory;
  const std::string mark = "\xEF\xBB\xBF";
  int lines = 0;
  const auto count = [&](const JsonView& view) { lines += view.has("a"); };
  for_each_json_line(directory.write("a.jsonl", mark + "{\"a\": 1}\n{\"a\": 2}\n"), count);
  EXPECT_EQ(lines, 2);
  const auto within = directory.write("b.jsonl", "{\"a\": 1}\n" + mark + "{\"a\": 2}\n");
  EXPECT_NE(test::message_of([&] {
              for_each_json_line(within, count);
            }).find("b.jsonl:2: found a byte order mark"),
            std::string::npos);
  const auto twice = directory.write("c.jsonl", mark + mark + "{\"a\": 1}\n");
  EXPECT_NE(test::message_of([&] {
              for_each_json_line(twice, count);
            }).find("c.jsonl:1: found a byte order mark"),
            std::string::npos);
}

// Blank lines and carriage returns are common in files from other systems.
TEST(JsonLines, BlankLinesAndCarriageReturnsAreNoRecords) {
  const test::TemporaryDirectory directory;
  std::vector<std::string> seen;
  const auto see = [&](const JsonView& view) {
    seen.push_back(view.source() + " " + view.at("a").as_string());
  };
  const std::string file =
      directory.write("a.jsonl", "\r\n{\"a\": \"x\"}\r\n\r\n  \t\n{\"a\": \"y\"}\n\n");
  for_each_json_line(file, see);
  EXPECT_EQ(seen, (std::vector<std::string>{file + ":2 x", file + ":5 y"}));
  const std::string blank = directory.write("b.jsonl", "\r\n\n");
  EXPECT_NE(test::message_of([&] {
              for_each_json_line(blank, see);
            }).find("b.jsonl: found an empty file"),
            std::string::npos);
}

}  // namespace
}  // namespace turnbench
