#include "datasets/jsonl.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "longbench_samples.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

// Editors put one in front of a file; anywhere else it is part of a line that is no JSON.
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

}  // namespace
}  // namespace turnbench
