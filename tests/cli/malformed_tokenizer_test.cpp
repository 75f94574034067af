// Damaged tokenizers and texts that they cannot encode, through the command line.

#include <gtest/gtest.h>

#include "inference/model/embedded_model.h"
#include "tests/cli/small_model.h"

namespace turnbench::test {
namespace {

/// A case with the embedded model's tokenizer, damaged.
Malformed tokenizer(const char* name, std::function<void(Json&)> damage, const char* expected) {
  return {name,
          [damage](const TemporaryDirectory& d) -> Arguments {
            Json json = parse_json(embedded::tokenizer(), "tokenizer.json");
            damage(json);
            d.write("t/tokenizer.json", json.dump());
            return {"tokenize", "--model", d.path("t"), d.write("text", "hello")};
          },
          expected};
}

Malformed tokenizer_text(const char* name, std::string text, const char* expected) {
  return {name,
          [text](const TemporaryDirectory& d) -> Arguments {
            d.write("t/tokenizer.json", text);
            return {"tokenize", "--model", d.path("t"), d.write("text", "hello")};
          },
          expected};
}

TEST(MalformedTokenizer, Refused) {
  const Malformed cases[] = {
      {"no tokenizer",
       [](const TemporaryDirectory& d) -> Arguments {
         d.write("t/config.json", "{}");
         return {"tokenize", "--model", d.path("t"), d.write("text", "hello")};
       },
       "found no tokenizer, expected tokenizer.json"},
      tokenizer_text("empty", "", "tokenizer.json: found nothing"),
      tokenizer_text("cut", std::string(embedded::tokenizer().substr(0, 5000)), "valid JSON"),
      tokenizer_text("deep nesting", std::string(50000, '{'), "tokenizer.json"),
      tokenizer(
          "no model", [](Json& j) { j.erase("model"); }, "no key \"model\""),
      tokenizer(
          "another model", [](Json& j) { j["model"]["type"] = "Unigram"; },
          "/model/type: found \"Unigram\""),
      tokenizer(
          "id is text", [](Json& j) { j["model"]["vocab"]["zz"] = "1"; },
          "/model/vocab/zz: found \"1\""),
      tokenizer(
          "merge of unknown tokens", [](Json& j) { j["model"]["merges"][0] = "zz yy"; },
          "/model/merges/0: found \"zz yy\""),
      tokenizer(
          "added token takes an id", [](Json& j) { j["added_tokens"][0]["id"] = 3; },
          "tokenizer.json: /added_tokens"),
      {"settings are no JSON",
       [](const TemporaryDirectory& d) -> Arguments {
         d.write("t/tokenizer.json", embedded::tokenizer());
         d.write("t/tokenizer_config.json", "{");
         return {"tokenize", "--model", d.path("t"), d.write("text", "hello")};
       },
       "tokenizer_config.json: column"},
      {"more tokens than the model has",
       [](const TemporaryDirectory& d) -> Arguments {
         write_model(d, {});
         d.write("m/tokenizer.json", embedded::tokenizer());
         return {"generate", "--model", d.path("m"), "--prompt", d.write("text", "hello")};
       },
       "expected at most the model's 16"},
      {"text is no UTF-8",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"tokenize", "--model", "tiny", d.write("text", "ab\xc3(")};
       },
       "text: byte 2: found 0xc3"},
      {"prompt is no UTF-8",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"generate", "--model", "tiny", "--chat", "--prompt", d.write("text", "ab\xff")};
       },
       "text: byte 2: found 0xff"},
      {"unknown id to decode",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"tokenize", "--model", "tiny", "--decode", d.write("ids", "[1, 99999]")};
       },
       "found 99999"},
      {"ids to decode are text",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"tokenize", "--model", "tiny",
                 "--decode", "--lines", d.write("ids", "1,2\n1,x\n")};
       },
       "ids: line 2: found \"x\""},
      {"ids to decode are negative",
       [](const TemporaryDirectory& d) -> Arguments {
         return {"tokenize", "--model", "tiny", "--decode", d.write("ids", R"({"ids": [-1]})")};
       },
       "/ids/0: found -1"},
  };
  expect_refusals(cases);
}

}  // namespace
}  // namespace turnbench::test
