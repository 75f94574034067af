#include "common/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/error.h"

namespace turnbench {
namespace {

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInput);
    return e.what();
  }
  return "no error";
}

TEST(Json, SyntaxErrorsNameThePlace) {
  EXPECT_EQ(message_of([] { parse_json("{\n  \"a\": 1,\n  b: 2}", "f.json"); }),
            "f.json: line 3, column 3: found 'b', expected valid JSON");
  EXPECT_EQ(message_of([] { parse_json("[1, 2", "f"); }),
            "f: column 6: found the end of the text, expected valid JSON");
  EXPECT_EQ(message_of([] { parse_json("", "f"); }), "f: found nothing, expected JSON");
  EXPECT_EQ(message_of([] { parse_json("{\"a\": 1, \"a\": 2}", "f"); }),
            "f: found the key \"a\" twice in one object, expected it once");
  EXPECT_NE(message_of([] {
              parse_json(std::string(100'000, '['), "f");
            }).find("nesting deeper than 256"),
            std::string::npos);
  EXPECT_NE(message_of([] { parse_json("[1e999]", "f"); }).find("out of range"), std::string::npos);
}

TEST(Json, ViewsNameTheirPath) {
  const Json json = parse_json(R"({"a": {"b": [1, "x", 2.5, -3]}})", "f");
  const JsonView b = JsonView(json, "f").at("a").at("b");
  EXPECT_EQ(b[0].as_integer(), 1);
  EXPECT_EQ(b[2].as_number(), 2.5);
  EXPECT_EQ(message_of([&] { b[1].as_integer(0); }),
            "f: /a/b/1: found \"x\", expected an integer of at least 0");
  EXPECT_EQ(message_of([&] { b[2].as_integer(); }), "f: /a/b/2: found 2.5, expected an integer");
  EXPECT_EQ(message_of([&] { b[3].as_integer(0, 9); }),
            "f: /a/b/3: found -3, expected an integer from 0 to 9");
  EXPECT_EQ(message_of([&] { b.at("c"); }), "f: /a/b: found an array of 4, expected an object");
  EXPECT_EQ(message_of([&] { JsonView(json, "f").at("c"); }),
            "f: /: found no key \"c\", expected one");
}

TEST(Json, UnknownKeysAreRefusedWithTheNearest) {
  const Json json = parse_json(R"({"postions": []})", "f");
  EXPECT_EQ(message_of([&] {
              JsonView(json, "f").require_known_keys({"positions", "methods"});
            }),
            "f: /: found the unknown key \"postions\", expected \"positions\"");
  EXPECT_EQ(nearest_name("zzzzzzzz", {"a", "b"}), "");
}

}  // namespace
}  // namespace turnbench
