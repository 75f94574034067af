#include "common/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

using test::message_of;

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

TEST(Json, EveryKindOfSyntaxErrorIsLocated) {
  const auto refusal = [](std::string_view text) {
    return message_of([&] { parse_json(text, "f"); });
  };
  struct Case {
    std::string_view text;
    int column;  ///< one-based, in bytes
    std::string_view found;
  };
  using namespace std::string_view_literals;
  for (const auto& [text, column, found] : {
           Case{"  ", 3, ""},
           {"tru", 4, ""},
           {"nan", 2, "a"},
           {"01", 2, "1"},
           {"+1", 1, "+"},
           {"-", 2, ""},
           {"1.", 3, ""},
           {".5", 1, "."},
           {"1e+", 4, ""},
           {"[1,]", 4, "]"},
           {"[1 2]", 4, "2"},
           {"{\"a\" 1}", 6, "1"},
           {"{\"a\": 1,}", 9, "}"},
           {"{a: 1}", 2, "a"},
           {"{} {}", 4, "{"},
           {"{}\0"sv, 3, "\\x00"},
           {"\"abc", 5, ""},
           {"\"a\tb\"", 3, "\\x09"},
           {"\"\0\""sv, 2, "\\x00"},
           {"\"\\x\"", 3, "x"},
           {"\"\\u12g4\"", 6, "g"},
           {"\"\\ud800\"", 3, "u"},
           {"\"\\ud800\\u0041\"", 3, "u"},
           {"\"\\udc00\"", 3, "u"},
           {"\"12345678\xFF\"", 10, "\\xff"},
           {"\"\xE4\xB8\"", 2, "\\xe4"},
           {"\xE4\xB8\xAD", 1, "\xE4\xB8\xAD"},
       }) {
    EXPECT_EQ(refusal(text),
              fmt::format("f: column {}: found {}, expected valid JSON", column,
                          found.empty() ? "the end of the text" : fmt::format("'{}'", found)));
  }
  EXPECT_EQ(refusal("[\n\n 1e999]"),
            "f: line 3, column 2: found a number out of range, expected valid JSON");
  EXPECT_EQ(refusal(std::string(256, '[') + std::string(256, ']')), "no error");
  EXPECT_EQ(refusal(std::string(257, '[') + std::string(257, ']')),
            "f: found nesting deeper than 256, expected less");
}

/// Values and types of numbers equal those of nlohmann's parser.
TEST(Json, ValuesEqualThoseOfAnotherParser) {
  for (const char* text : {
           "null",
           " true ",
           "\n[false,[],{}]\r\t",
           "\xEF\xBB\xBF{}",
           "-0",
           "-0.0",
           "0e5",
           "1.5E+10",
           "1e-400",
           "-1e-400",
           "123456789012345678901234567890",
           "18446744073709551615",
           "18446744073709551616",
           "-9223372036854775808",
           "-9223372036854775809",
           "0.1000000000000000055511151231257827",
           "\"\"",
           "\"a long text of plain letters\"",
           R"("\"\\\/\b\f\n\r\t\u00e9\u4E2D\ud83d\ude00\u0000")",
           "\"\x7F 1234567\xC3\xA9\xF0\x9F\x98\x80\"",
           R"({"a": {"b": [1, "x", 2.5]}, "": null, "12345678\"": [[]]})",
       }) {
    const Json other = Json::parse(text);
    EXPECT_EQ(parse_json(text, "f"), other) << text;
    EXPECT_EQ(parse_json(text, "f").dump(), other.dump()) << text;
  }
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
