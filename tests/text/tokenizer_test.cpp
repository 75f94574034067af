#include "text/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <ctime>
#include <thread>

#include "common/error.h"
#include "inference/model/embedded_model.h"
#include "tests/temporary_directory.h"
#include "tests/text/tokenizer_fuzz.h"

namespace turnbench {
namespace {

using Options = Tokenizer::Options;

Tokenizer small(const std::string& name) {
  const std::filesystem::path path = kTokenizerData / (name + ".json");
  return Tokenizer::from_json(read_file(path), "", path.string());
}

std::string repeat(std::string_view text, std::size_t bytes) {
  std::string out;
  while (out.size() < bytes) out += text;
  return out;
}

/// Expects that ends[k] is the start of the character in which token k ends.
void expect_ends_follow_bytes(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::size_t> ends;
  const std::vector<int> ids = tokenizer.encode(text, {}, ends);
  ASSERT_EQ(ids.size(), ends.size());
  std::string joined;
  for (std::size_t k = 0; k < ids.size(); ++k) {
    joined += tokenizer.token_text(ids[k]);
    std::size_t start = joined.size();
    while (start < text.size() && (text[start] & 0xC0) == 0x80) --start;
    ASSERT_EQ(ends[k], start) << "token " << k << " of " << printable(text);
  }
  ASSERT_EQ(joined, text);
}

TEST(Tokenizer, ByteLevelModelsInvertEveryText) {
  for (const char* name : {"gpt2", "llama3", "falcon", "starcoder", "deepseek3", "o200k"}) {
    const Tokenizer tokenizer = small(name);
    for (std::uint64_t i = 0; i < 2000; ++i) {
      const std::string text = fuzz_texts().text(7, i);
      ASSERT_EQ(tokenizer.decode(tokenizer.encode(text, {}), false), text) << name << " " << i;
      expect_ends_follow_bytes(tokenizer, text);
      if (HasFatalFailure()) FAIL() << name << " " << i;
    }
  }
}

// Words are cached from text to text, up to a limit that these texts exceed.
TEST(Tokenizer, EarlierTextsDoNotChangeTokens) {
  std::string many;
  for (int i = 0; many.size() < 3'000'000; ++i) many += "word" + std::to_string(7919 * i) + " ";
  for (const char* name : {"llama3", "llama2"}) {
    const Tokenizer used = small(name);
    const std::vector<int> first = used.encode(many, {});
    for (std::uint64_t i = 0; i < 100; ++i) {
      const std::string text = fuzz_texts().text(7, i);
      EXPECT_EQ(used.encode(text, {}), small(name).encode(text, {})) << name << " " << i;
    }
    EXPECT_EQ(used.encode(many, {}), first) << name;
  }
}

TEST(Tokenizer, ByteFallbackModelsInvertEveryTextWithoutTheSpaceMark) {
  const Tokenizer tokenizers[] = {small("llama2"),
                                  Tokenizer::open(kTokenizerData / "sentencepiece")};
  for (const Tokenizer& tokenizer : tokenizers) {
    for (std::uint64_t i = 0; i < 2000; ++i) {
      const std::string text = replace_all(fuzz_texts().text(7, i), "\u2581", "x");
      // Text such as <0x41> becomes a byte token, as in the reference.
      if (text.find("<0x") != std::string::npos) continue;
      ASSERT_EQ(tokenizer.decode(tokenizer.encode(text, {}), false), text) << i;
    }
  }
}

TEST(Tokenizer, EndsAscendWithinTheTextForEveryStyle) {
  for (const char* name : {"roberta", "qwen2", "nfd", "deepseek", "llama2", "metaspace",
                           "metaspace_split", "behaviors", "whitespace"}) {
    const Tokenizer tokenizer = small(name);
    for (std::uint64_t i = 0; i < 1000; ++i) {
      const std::string text = fuzz_texts().text(8, i);
      std::vector<std::size_t> ends;
      tokenizer.encode(text, {.parse_special = true, .add_special = i % 2 == 0}, ends);
      std::size_t last = 0;
      for (std::size_t end : ends) {
        ASSERT_GE(end, last) << name << " " << i;
        ASSERT_LE(end, text.size());
        ASSERT_TRUE(end == text.size() || (text[end] & 0xC0) != 0x80) << name << " " << i;
        last = end;
      }
    }
  }
}

TEST(Tokenizer, EndsPointIntoTheOriginalText) {
  std::vector<std::size_t> ends;
  // NFC combines "e" and U+0301 into one character, here with a token for each of its two bytes.
  const Tokenizer qwen2 = small("qwen2");
  const std::vector<int> ids = qwen2.encode("xe\u0301\u0323z", {}, ends);
  EXPECT_EQ(qwen2.decode(ids, false), "x\u1EB9\u0301z");
  EXPECT_EQ(ends.front(), 1u);
  EXPECT_EQ(ends.back(), 7u);
  EXPECT_EQ(ends[ends.size() - 2], 6u);
  // Spaces become U+2581, and one is inserted at the beginning.
  const Tokenizer llama2 = small("llama2");
  llama2.encode("the  \u4E2D", {}, ends);
  EXPECT_EQ(ends.back(), 8u);
  const Tokenizer roberta = small("roberta");
  const int mask = roberta.id_of("<mask>").value();
  const std::vector<int> masked =
      roberta.encode("a \t<mask> b", {.parse_special = true, .add_special = true}, ends);
  EXPECT_EQ(masked.front(), roberta.id_of("<s>"));
  EXPECT_EQ(masked.back(), roberta.id_of("</s>"));
  EXPECT_EQ(masked[2], mask);  // includes the white space on its left
  EXPECT_EQ(ends, (std::vector<std::size_t>{0, 1, 9, 11, 11}));
  EXPECT_TRUE(roberta.encode("", {}, ends).empty());
  EXPECT_TRUE(ends.empty());
}

TEST(Tokenizer, SpecialTokensAreTextUnlessParsed) {
  const Tokenizer tokenizer = small("qwen2");
  const int start = tokenizer.id_of("<|im_start|>").value();
  const int call = tokenizer.id_of("<tool_call>").value();
  EXPECT_TRUE(tokenizer.is_special(start));
  EXPECT_FALSE(tokenizer.is_special(call));
  EXPECT_FALSE(tokenizer.is_special(0));
  const std::vector<int> parsed =
      tokenizer.encode("<|im_start|><tool_call>", {.parse_special = true});
  EXPECT_EQ(parsed, (std::vector<int>{start, call}));
  const std::vector<int> plain = tokenizer.encode("<|im_start|><tool_call>", {});
  EXPECT_GT(plain.size(), 4u);
  EXPECT_EQ(plain.back(), call);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), start), 0);
  EXPECT_EQ(tokenizer.decode(plain, true), "<|im_start|><tool_call>");
  EXPECT_EQ(tokenizer.decode(parsed, true), "<tool_call>");
  EXPECT_EQ(tokenizer.decode(parsed, false), "<|im_start|><tool_call>");
  EXPECT_EQ(tokenizer.token_text(start), "<|im_start|>");
  EXPECT_EQ(tokenizer.id_of("no such token"), std::nullopt);
}

TEST(Tokenizer, DecodesPartsOfCharactersAsReplacements) {
  const Tokenizer tokenizer = small("gpt2");
  const std::vector<int> ids = tokenizer.encode("a\U0010ABCDb", {});
  ASSERT_EQ(ids.size(), 6u);
  EXPECT_EQ(tokenizer.decode(std::span(ids).first(3), false), "a\uFFFD");
  EXPECT_EQ(tokenizer.decode(std::span(ids).last(2), false), "\uFFFDb");
  EXPECT_EQ(tokenizer.token_text(ids[1]), "\xF4");
}

TEST(Tokenizer, RefusesIdsThatHaveNoToken) {
  const Tokenizer tokenizer = small("gpt2");
  for (int id : {-1, tokenizer.vocab_size(), 1 << 30}) {
    const int ids[] = {0, id};
    EXPECT_THROW(tokenizer.decode(ids, true), Error) << id;
    EXPECT_THROW(tokenizer.token_text(id), Error) << id;
    EXPECT_FALSE(tokenizer.is_special(id)) << id;
  }
}

TEST(Tokenizer, RefusesIllFormedText) {
  const Tokenizer tokenizer = small("gpt2");
  const std::pair<std::string, int> cases[] = {
      {"\x80", 0},         {"ab\xC3", 2},          {"\xC0\xAF", 0},
      {"a\xE2\x82", 1},    {"\xED\xA0\x80", 0},    {"ok \xF4\x90\x80\x80", 3},
      {"\xFF", 0},         {"é\xE9", 2},           {"x\xE0\x80\x80", 1},
      {"\xF0\x9F\x98", 0}, {"\xF8\x88\x80\x80", 0}};
  for (const auto& [text, offset] : cases) {
    try {
      tokenizer.encode(text, {});
      ADD_FAILURE() << printable(text);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kInput);
      EXPECT_EQ(std::string(e.what()),
                fmt::format("text: byte {}: found 0x{:02x}, expected well-formed UTF-8", offset,
                            static_cast<unsigned char>(text[offset])));
    }
  }
}

TEST(Tokenizer, ReadsTokenizerConfig) {
  const std::string json = read_file(kTokenizerData / "llama3.json");
  const auto load = [&](const char* config) { return Tokenizer::from_json(json, config, "test"); };
  const Tokenizer plain = load("");
  EXPECT_EQ(plain.bos(), std::nullopt);
  EXPECT_EQ(plain.eos(), std::nullopt);
  EXPECT_EQ(plain.chat_template(), "");
  const Tokenizer named = load(R"({"bos_token": "<|begin_of_text|>", "chat_template": "tiny",
                                   "eos_token": {"content": "<|eot_id|>", "lstrip": false}})");
  EXPECT_EQ(named.bos(), named.id_of("<|begin_of_text|>"));
  EXPECT_EQ(named.eos(), named.id_of("<|eot_id|>"));
  EXPECT_EQ(named.chat_template(), "tiny");
  const Tokenizer listed = load(R"({"bos_token": null, "chat_template": [
      {"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}]})");
  EXPECT_EQ(listed.bos(), std::nullopt);
  EXPECT_EQ(listed.chat_template(), "b");
  const test::TemporaryDirectory directory;
  directory.write("tokenizer.json", json);
  directory.write("chat_template.jinja", "c");
  directory.write("tokenizer_config.json", R"({"chat_template": "b"})");  // ignored
  EXPECT_EQ(Tokenizer::open(directory.path()).chat_template(), "c");
}

TEST(Tokenizer, VocabAndMergesAreTheSameModelAsTokenizerJson) {
  for (const std::string name : {"qwen2", "gpt2"}) {
    const Json json = load_json(kTokenizerData / (name + ".json"));
    const test::TemporaryDirectory directory;
    directory.write("vocab.json", json["model"]["vocab"].dump());
    std::string merges = "#version: 0.2\n";
    for (const Json& merge : json["model"]["merges"]) {
      merges += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
    }
    directory.write("merges.txt", merges);
    Json config{{"tokenizer_class", name == "qwen2" ? "Qwen2Tokenizer" : "GPT2Tokenizer"}};
    for (Json token : json["added_tokens"]) {
      const std::string id = token["id"].dump();
      config["added_tokens_decoder"][id] = token;
    }
    directory.write("tokenizer_config.json", config.dump());
    const Tokenizer tokenizer = Tokenizer::open(directory.path());
    const Tokenizer expected = small(name);
    EXPECT_EQ(tokenizer.vocab_size(), expected.vocab_size());
    for (std::uint64_t i = 0; i < 2000; ++i) {
      const std::string text = fuzz_texts().text(9, i);
      const Options options{.parse_special = i % 2 == 0};
      ASSERT_EQ(tokenizer.encode(text, options), expected.encode(text, options)) << name << i;
    }
  }
}

TEST(Tokenizer, ThreadsShareOneObject) {
  const Tokenizer tokenizer = small("llama3");
  std::string text;
  for (std::uint64_t i = 0; i < 300; ++i) text += fuzz_texts().text(10, i);
  const std::vector<int> expected = tokenizer.encode(text, {});
  std::vector<std::vector<int>> got(4);
  std::vector<std::thread> threads;
  for (auto& ids : got) threads.emplace_back([&] { ids = tokenizer.encode(text, {}); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& ids : got) EXPECT_EQ(ids, expected);
}

/// Processor time of one encoding: the fastest of a few runs.
double seconds(const Tokenizer& tokenizer, const std::string& text) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t start = std::clock();
    const std::vector<int> ids = tokenizer.encode(text, {});
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    EXPECT_FALSE(ids.empty());
  }
  return best;
}

TEST(Tokenizer, TimeIsLinearInTheText) {
  const std::pair<const char*, std::string> texts[] = {
      {"letters", "a"},
      {"spaces", " "},
      {"lines", "\n"},
      {"emoji", "\U0001F600"},
      {"digits", "7"},
      {"marks", "\u0315\u0316"},
      {"words", "the quick brown fox jumps over the lazy dog. "},
      {"unfinished specials", "<|im_start"}};
  constexpr std::size_t kShort = 25'000;
  for (const char* name :
       {"gpt2", "llama3", "qwen2", "falcon", "deepseek", "llama2", "metaspace"}) {
    const Tokenizer tokenizer = small(name);
    for (const auto& [kind, piece] : texts) {
      const double one = seconds(tokenizer, repeat(piece, kShort));
      const double four = seconds(tokenizer, repeat(piece, 4 * kShort));
      EXPECT_LT(four, 8 * one + 0.02) << name << ": " << kind;
    }
    // A run of spaces before another character must not be matched again from each of its
    // positions.
    const double one = seconds(tokenizer, repeat(" ", kShort) + "\u4E2D");
    const double four = seconds(tokenizer, repeat(" ", 4 * kShort) + "\u4E2D");
    EXPECT_LT(four, 8 * one + 0.02) << name << ": spaces before a character";
  }
}

// The texts of the conformance data: 47 + 47 + 47 texts and longer ones.
class Conformance : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kRealTokenizers)) GTEST_SKIP() << "no ../shared/data/tokenizers";
  }

  static void check(const std::string& cases, const char* model, std::size_t expected_cases) {
    const Tokenizer tokenizer = Tokenizer::open(kRealTokenizers / model);
    const std::filesystem::path folder = kRealTokenizers / "conformance";
    const std::vector<std::string> texts =
        split(read_file(folder / (cases + ".inp")), "\n__ggml_vocab_test__\n");
    const std::vector<std::string> lines = split(read_file(folder / (cases + ".out")), "\n");
    ASSERT_EQ(texts.size(), expected_cases);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      std::vector<int> ids;
      for (const std::string& id : split(trim(lines[i]), " ")) {
        if (!id.empty()) ids.push_back(std::stoi(id));
      }
      EXPECT_EQ(tokenizer.encode(texts[i], {}), ids) << i << ": " << printable(texts[i]);
      EXPECT_EQ(tokenizer.decode(ids, false), texts[i]);
    }
  }

  static void check_long(const char* model) {
    const Tokenizer tokenizer = Tokenizer::open(kRealTokenizers / model);
    std::size_t records = 0;
    for_each_line(kRealTokenizers / "conformance" / fmt::format("long_texts.{}.jsonl", model),
                  [&](std::string_view line, std::size_t number) {
                    const Json record = parse_json(line, "long texts");
                    const std::string text = record["text"];
                    EXPECT_EQ(tokenizer.encode(text, {}), record["ids"].get<std::vector<int>>())
                        << "line " << number;
                    expect_ends_follow_bytes(tokenizer, text);
                    ++records;
                  });
    EXPECT_EQ(records, 13u);
  }
};

TEST_F(Conformance, Llama3) {
  check("ggml-vocab-llama-bpe.gguf", "llama3", 47);
}
TEST_F(Conformance, Qwen2) {
  check("ggml-vocab-qwen2.gguf", "qwen2.5", 47);
}
TEST_F(Conformance, Llama2) {
  check("ggml-vocab-llama-spm.gguf", "llama2", 47);
}
TEST_F(Conformance, LongTextsLlama3) {
  check_long("llama3");
}
TEST_F(Conformance, LongTextsQwen2) {
  check_long("qwen2.5");
}

TEST_F(Conformance, MistralModelAndJsonAgree) {
  const std::filesystem::path folder = kRealTokenizers / "mistral-7b-v0.2";
  const test::TemporaryDirectory directory;
  directory.write("tokenizer.model", read_file(folder / "tokenizer.model"));
  directory.write("tokenizer_config.json", read_file(folder / "tokenizer_config.json"));
  const Tokenizer model = Tokenizer::open(directory.path());
  const Tokenizer json = Tokenizer::open(folder);
  EXPECT_EQ(model.vocab_size(), json.vocab_size());
  EXPECT_EQ(model.bos(), json.bos());
  EXPECT_EQ(model.eos(), json.eos());
  EXPECT_EQ(model.chat_template(), json.chat_template());
  std::vector<std::string> texts;
  for (std::uint64_t i = 0; i < 5000; ++i) texts.push_back(fuzz_texts().text(i));
  for_each_line(kRealTokenizers / "conformance/long_texts.llama3.jsonl",
                [&](std::string_view line, std::size_t) {
                  texts.push_back(parse_json(line, "long texts")["text"]);
                });
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Options options{.parse_special = i % 2 == 0, .add_special = i % 3 == 0};
    std::vector<std::size_t> model_ends, json_ends;
    ASSERT_EQ(model.encode(texts[i], options, model_ends),
              json.encode(texts[i], options, json_ends))
        << printable(texts[i]);
    ASSERT_EQ(model_ends, json_ends);
  }
}

TEST_F(Conformance, RealTokenizersKnowTheirSpecialTokens) {
  const Tokenizer llama3 = Tokenizer::open(kRealTokenizers / "llama3");
  EXPECT_EQ(llama3.vocab_size(), 128256);
  EXPECT_EQ(llama3.bos(), 128000);
  EXPECT_EQ(llama3.eos(), 128009);
  EXPECT_EQ(llama3.encode("x", {.add_special = true}).front(), 128000);
  const Tokenizer qwen = Tokenizer::open(kRealTokenizers / "qwen2.5");
  EXPECT_EQ(qwen.vocab_size(), 151665);
  EXPECT_EQ(qwen.bos(), std::nullopt);
  EXPECT_EQ(qwen.eos(), 151645);
  EXPECT_EQ(qwen.encode("x", {.add_special = true}).size(), 1u);
  const Tokenizer llama2 = Tokenizer::open(kRealTokenizers / "llama2");
  EXPECT_EQ(llama2.vocab_size(), 32000);
  EXPECT_EQ(llama2.encode("</s>", {.parse_special = true, .add_special = true}),
            (std::vector<int>{1, 2}));
  EXPECT_EQ(llama2.token_text(llama2.encode("hello", {})[0]), " hello");
}

}  // namespace
}  // namespace turnbench
