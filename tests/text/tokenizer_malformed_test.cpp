#include <gtest/gtest.h>

#include <functional>

#include "common/error.h"
#include "tests/temporary_directory.h"
#include "tests/text/tokenizer_fuzz.h"
#include "text/tokenizer/tokenizer.h"

// Damaged and unsupported tokenizer files give a clear one-line error and never a crash.

namespace turnbench {
namespace {

/// A small valid tokenizer.json.
const char* const kGood = R"json({
  "added_tokens": [{"id": 6, "content": "<s>", "special": true}],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
  "post_processor": null,
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "c": 3, "abc": 4, "Ġ": 5},
            "merges": ["a b", ["ab", "c"]]}})json";

std::string refusal(const std::function<void()>& load) {
  try {
    load();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInput) << e.what();
    const std::string message = e.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
  return "nothing was refused";
}

/// The error for kGood with the value at `pointer` replaced.
std::string refusal_of(const std::string& pointer, const std::string& value) {
  Json json = parse_json(kGood, "good");
  json[Json::json_pointer(pointer)] = Json::parse(value);
  return refusal([&] { Tokenizer::from_json(json.dump(), "", "t.json"); });
}

struct DamageCase {
  const char* pointer;
  const char* value;
  const char* message;  // the beginning of the message
};

TEST(MalformedTokenizer, ValidTokenizerLoads) {
  const Tokenizer tokenizer = Tokenizer::from_json(kGood, "", "t.json");
  EXPECT_EQ(tokenizer.encode("abc ab?", {}), (std::vector<int>{4, 5, 2}));
}

TEST(MalformedTokenizer, ErrorsNameTheDamage) {
  const DamageCase cases[] = {
      {"/model", "null", "t.json: /model: found null, expected an object"},
      {"/model/type", R"("WordPiece")", "t.json: /model/type: found \"WordPiece\", expected BPE"},
      {"/model/vocab", "[]", "t.json: /model/vocab: found an array of 0, expected an object of"},
      {"/model/vocab/a", "-1", "t.json: /model/vocab/a: found -1, expected an integer from 0 to"},
      {"/model/vocab/a", "4000000000", "t.json: /model/vocab/a: found 4000000000, expected an int"},
      {"/model/vocab/a", "1e300", "t.json: /model/vocab/a: found 1e+300, expected an integer"},
      {"/model/vocab/a", "0.5", "t.json: /model/vocab/a: found 0.5, expected an integer"},
      {"/model/vocab/a", R"("0")", "t.json: /model/vocab/a: found \"0\", expected an integer"},
      {"/model/vocab/a\nb", "-1",
       "t.json: /model/vocab/a\\x0ab: found -1, expected an integer from"},
      {"/model/vocab/a", "3", "t.json: /model/vocab: found the id 3 for"},
      {"/model/merges", "null", "t.json: /model/merges: found null, expected an array"},
      {"/model/merges/0", "7", "t.json: /model/merges/0: found 7, expected two tokens"},
      {"/model/merges/0", R"("ab")", "t.json: /model/merges/0: found \"ab\", expected two tokens"},
      {"/model/merges/0", R"("a b c")", "t.json: /model/merges/0: found \"a b c\", expected two"},
      {"/model/merges/0", R"("a ")", "t.json: /model/merges/0: found \"a \", expected tokens of"},
      {"/model/merges/0", R"("a x")", "t.json: /model/merges/0: found \"a x\", expected tokens of"},
      {"/model/merges/0", R"(["b","a"])",
       "t.json: /model/merges/0: found an array of 2, expected tokens"},
      {"/model/merges/0", R"(["a"])",
       "t.json: /model/merges/0: found an array of 1, expected two tok"},
      {"/model/dropout", "0.1", "t.json: /model/dropout: found 0.1, expected 0 or null"},
      {"/model/unk_token", R"("?")", "t.json: /model/unk_token: found \"?\", expected a token of"},
      {"/model/end_of_word_suffix", R"("</w>")", "t.json: /model/end_of_word_suffix: found"},
      {"/model/continuing_subword_prefix", R"("##")", "t.json: /model/continuing_subword_pref"},
      {"/model/byte_fallback", "1", "t.json: /model/byte_fallback: found 1, expected true or"},
      {"/added_tokens", "{}",
       "t.json: /added_tokens: found an object with 0 keys, expected an array"},
      {"/added_tokens/0", "{}", "t.json: /added_tokens/0: found no key \"id\", expected one"},
      {"/added_tokens/0/id", "-6", "t.json: /added_tokens/0/id: found -6, expected an integer"},
      {"/added_tokens/0/id", "99999999", "t.json: /added_tokens/0/id: found 99999999, expected"},
      {"/added_tokens/0/id", "2", "t.json: /added_tokens: found the added token <s> with the id 2"},
      {"/added_tokens/0/content", R"("ab")",
       "t.json: /added_tokens: found the added token ab with"},
      {"/added_tokens/0/content", R"("")", "t.json: /added_tokens/0/content: found \"\", expected"},
      {"/added_tokens/0/special", "0", "t.json: /added_tokens/0/special: found 0, expected true"},
      {"/added_tokens/1", R"({"id": 6, "content": "<t>"})",
       "t.json: /added_tokens: found the added"},
      {"/added_tokens/1", R"({"id": 7, "content": "<s>"})",
       "t.json: /added_tokens: found the added"},
      {"/normalizer", R"({"type": "Precompiled"})",
       "t.json: /normalizer/type: found \"Precompiled"},
      {"/normalizer", R"({"type": "Sequence"})", "t.json: /normalizer: found no key \"normalizers"},
      {"/normalizer", R"({"type": "Strip"})", "t.json: /normalizer: found no key \"strip_left\""},
      {"/normalizer", R"({"type": "Replace", "content": "", "pattern": {"Regex": "("}})",
       "t.json: /normalizer/pattern/Regex: found the pattern (, expected a valid regular expr"},
      {"/normalizer", R"({"type": "Replace", "content": "", "pattern": "x"})",
       "t.json: /normalizer/pattern: found \"x\", expected an object"},
      {"/pre_tokenizer", "[]", "t.json: /pre_tokenizer: found an array of 0, expected an object"},
      {"/pre_tokenizer", R"({"type": "UnicodeScripts"})", "t.json: /pre_tokenizer/type: found \"U"},
      {"/pre_tokenizer", R"({"type": "Split", "pattern": {"String": "x"}, "behavior": "Kept"})",
       "t.json: /pre_tokenizer/behavior: found \"Kept\", expected one of: Isolated"},
      {"/pre_tokenizer",
       R"({"type": "Split", "pattern": {"Regex": "a(?"}, "behavior": "Isolated"})",
       "t.json: /pre_tokenizer/pattern/Regex: found this kind of group at byte 1 of the pattern a"},
      {"/pre_tokenizer", R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"},
        {"type": "ByteLevel"}]})",
       "t.json: /pre_tokenizer/pretokenizers/1: found"},
      {"/pre_tokenizer", R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"},
        {"type": "Metaspace"}]})",
       "t.json: /pre_tokenizer/pretokenizers/1: found"},
      {"/pre_tokenizer", R"({"type": "Metaspace", "prepend_scheme": "last"})",
       "t.json: /pre_tokenizer/prepend_scheme: found \"last\", expected always, first or never"},
      {"/pre_tokenizer", R"({"type": "Metaspace", "replacement": ""})",
       "t.json: /pre_tokenizer/replacement: found \"\", expected a character"},
      {"/decoder", R"({"type": "CTC"})", "t.json: /decoder/type: found \"CTC\", expected one of"},
      {"/decoder", R"({"type": "Strip", "content": ""})", "t.json: /decoder/content: found \"\""},
      {"/decoder", R"({"type": "Strip", "content": " ", "start": -1})", "t.json: /decoder/start"},
      {"/post_processor", R"({"type": "BertProcessing"})", "t.json: /post_processor/type: found"},
      {"/post_processor", R"({"type": "TemplateProcessing", "special_tokens": {}, "single":
        [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]})",
       "t.json: /post_processor/single/0/SpecialToken/id: found \"<s>\", expected a key of"},
      {"/post_processor", R"({"type": "TemplateProcessing", "single": [],
        "special_tokens": {}})",
       "t.json: /post_processor/single: found an array of 0, expected the"},
      {"/post_processor", R"({"type": "TemplateProcessing", "single":
        [{"SpecialToken": {"id": "<s>"}}], "special_tokens": {"<s>": {"ids": [77]}}})",
       "t.json: /post_processor/special_tokens/<s>/ids/0: found 77, expected the id of a token"},
  };
  for (const DamageCase& c : cases) {
    const std::string message = refusal_of(c.pointer, c.value);
    EXPECT_TRUE(message.starts_with(c.message)) << c.pointer << " " << c.value << "\n" << message;
  }
}

TEST(MalformedTokenizer, RefusesMergesOfByteTokens) {
  const std::string text = R"({"model": {"byte_fallback": true, "merges": ["<0x41> <0x42>"],
      "vocab": {"<0x41>": 0, "<0x42>": 1, "<0x41><0x42>": 2}}})";
  EXPECT_TRUE(refusal([&] {
                Tokenizer::from_json(text, "", "t");
              }).starts_with("t: /model/merges/0: found \"<0x41> <0x42>\", expected no merge"));
}

TEST(MalformedTokenizer, RefusesDamagedConfig) {
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "t.json: tokenizer_config.json: /: found an array of 0, expected an object"},
      {"{", "t.json: tokenizer_config.json: "},
      {R"({"bos_token": 1})", "t.json: tokenizer_config.json: /bos_token: found 1, expected a str"},
      {R"({"eos_token": "zz"})",
       "t.json: tokenizer_config.json: /eos_token: found \"zz\", expected"},
      {R"({"bos_token": {"text": "<s>"}})", "t.json: tokenizer_config.json: /bos_token: found no"},
      {R"({"chat_template": 5})", "t.json: tokenizer_config.json: /chat_template: found 5, expect"},
      {R"({"chat_template": []})",
       "t.json: tokenizer_config.json: /chat_template: found an array of 0, exp"},
  };
  for (const auto& [config, start] : cases) {
    const auto& text = config;
    const std::string message = refusal([&] { Tokenizer::from_json(kGood, text, "t.json"); });
    EXPECT_TRUE(message.starts_with(start)) << message;
  }
}

/// The error for a directory with the files given as name, content, name, content, ...; the
/// directory's own path is removed.
std::string refusal_to_open(const std::vector<std::string>& files) {
  const test::TemporaryDirectory directory;
  for (std::size_t i = 0; i < files.size(); i += 2) directory.write(files[i], files[i + 1]);
  return replace_all(refusal([&] { Tokenizer::open(directory.path()); }), directory.path(""), "");
}

TEST(MalformedTokenizer, DirectoriesAndOldFormats) {
  const std::string vocab = R"({"a": 0, "b": 1, "ab": 2})";
  const std::string special = R"({"added_tokens_decoder": {}})";
  const auto message = refusal_to_open;
  EXPECT_NE(message({}).find("found no tokenizer, expected tokenizer.json"), std::string::npos);
  EXPECT_NE(message({"vocab.json", vocab}).find("found no tokenizer"), std::string::npos);
  EXPECT_EQ(message({"vocab.json", vocab, "merges.txt", "#version: 0.2\na b\nb x\n"}),
            "merges.txt: line 3: found b x, expected two tokens of the vocabulary whose "
            "concatenation is one too");
  EXPECT_TRUE(message({"vocab.json", vocab, "merges.txt", "ab\n"})
                  .starts_with("merges.txt: line 1: found ab, expected two tokens"));
  EXPECT_TRUE(message({"vocab.json", "{\"a\": 0,", "merges.txt", ""}).starts_with("vocab.json: "));
  EXPECT_TRUE(message({"vocab.json", vocab, "merges.txt", "", "tokenizer_config.json",
                       R"({"added_tokens_decoder": {"-4": {"content": "x"}}})"})
                  .starts_with("tokenizer_config.json: /added_tokens_decoder: found"));
  EXPECT_TRUE(message({"tokenizer.json", "{}"}).starts_with("tokenizer.json: /: found no key"));
  EXPECT_TRUE(message({"tokenizer.json", ""}).starts_with("tokenizer.json: found nothing"));
  EXPECT_TRUE(message({"tokenizer.model", "IQ== 0\n"})
                  .starts_with("tokenizer.model: found a tiktoken file without added_tokens_dec"));
  const std::pair<const char*, const char*> tiktoken[] = {
      {"IQ==\n", "tokenizer.model: line 1: found IQ==, expected a token in base64 and its rank"},
      {"IQ== 0\nI!== 1\n", "tokenizer.model: line 2: found I!== 1, expected a token in base64"},
      {"IQ== 0\nIg 1\n", "tokenizer.model: line 2: found Ig 1, expected a token in base64"},
      {"IQ== x\n", "tokenizer.model: line 1: found IQ== x, expected a token in base64"},
      {"IQ== -1\n", "tokenizer.model: found the id -1 of the token !, expected 0 to"},
      {"IQ== 99999999999\n", "tokenizer.model: line 1: found IQ== 99999999999, expected"},
      {"IQ== 0\nIg== 0\n", "tokenizer.model: found the id 0 for ! and for \", expected one token"},
      {"IQ== 0\nIQ== 1\n", "tokenizer.model: found the token ! twice, expected it once"},
      {"IQ== 0\n", "tokenizer.model: found no token for the byte 0x00, expected all 256"},
  };
  for (const auto& [content, start] : tiktoken) {
    const std::string got = message({"tokenizer.model", content, "tokenizer_config.json", special});
    EXPECT_TRUE(got.starts_with(start)) << got;
  }
}

std::string field(int number, std::string_view bytes) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  out += static_cast<char>(bytes.size());
  return out.append(bytes);
}

TEST(MalformedTokenizer, SentencePieceModels) {
  const std::string piece = field(1, field(1, "a") + std::string("\x15\0\0\0\0", 5));
  const std::string trainer = field(2, "\x18\x02");
  const std::string normalizer = field(3, std::string("\x20\x00", 2));
  const std::string good = piece + trainer + normalizer;
  const auto message = [](const std::string& model) {
    return refusal_to_open({"tokenizer.model", model});
  };
  EXPECT_EQ(message(good), "nothing was refused");
  const std::pair<std::string, const char*> cases[] = {
      {piece, "tokenizer.model: byte 10: found the end of the file, expected the specifications"},
      {piece + normalizer, "tokenizer.model: byte 14: found the end of the file, expected the sp"},
      {"\n", "tokenizer.model: byte 1: found 0 bytes, expected 1 more of the SentencePiece model"},
      {"\n\x05",
       "tokenizer.model: byte 2: found 0 bytes, expected 5 more of the SentencePiece mod"},
      {good + "\x0B", "tokenizer.model: byte 18: found a field of the wire type 3, expected 0, 1"},
      {good + "\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01",
       "tokenizer.model: byte 29: found an integer of more than 64 bits, expected a shorter one"},
      {good + std::string("\x08\x01", 2), "tokenizer.model: byte 18: found a number, expected a m"},
      {piece + field(1, "") + trainer + normalizer,
       "tokenizer.model: byte 10: found a piece without text, expected a text"},
      {piece + field(1, field(1, "\xFF")), "tokenizer.model: byte 12: found something else, expec"},
      {piece + field(1, field(1, "b") + "\x18\x09"),
       "tokenizer.model: byte 15: found the type 9, expected 1 to 6"},
      {piece + field(1, field(1, "b") + "\x18\x05"), "tokenizer.model: byte 10: found an unused"},
      {piece + field(1, field(1, "b") + std::string("\x15\0\0\xC0\x7F", 5)),
       "tokenizer.model: byte 10: found a score that is no number, expected a number"},
      {piece + piece + trainer + normalizer, "tokenizer.model: found the token a twice, expected"},
      {piece + field(1, field(1, "ab")) + trainer + normalizer,
       "tokenizer.model: found the piece ab with a character that is no piece, expected each"},
      {piece + field(2, "\x18\x01") + normalizer, "tokenizer.model: byte 0: found the model type"},
      {piece + field(2, "\x18\x02\xC0\x01\x01") + normalizer,
       "tokenizer.model: byte 14: found white space as a suffix, expected white space as a prefix"},
      {piece + trainer + field(3, ""), "tokenizer.model: byte 0: found remove_extra_whitespaces"},
      {piece + trainer + field(3, field(2, "x")), "tokenizer.model: byte 16: found normalization"},
      {piece + trainer + field(3, std::string("\x20\x00\x28\x00", 4)),
       "tokenizer.model: byte 18: found escape_whitespaces off, expected on"},
  };
  for (const auto& [model, start] : cases) {
    const std::string got = message(model);
    EXPECT_TRUE(got.starts_with(start)) << got << "\nexpected " << start;
  }
}

/// A file that is truncated anywhere or has a few changed bytes is loaded or refused.
TEST(MalformedTokenizer, RandomDamageNeverCrashes) {
  const auto probe = [](const Tokenizer& tokenizer) {
    tokenizer.encode("Hello  world\n<s> \u4E2D\U0001F600 abc", {.parse_special = true});
  };
  const auto damage = [](std::string text, Random& random) {
    if (random.below(3) == 0) text.resize(random.below(text.size()));
    for (std::uint64_t i = 1 + random.below(4); i > 0 && !text.empty(); --i) {
      text[random.below(text.size())] = static_cast<char>(random.below(256));
    }
    return text;
  };
  const std::string json = read_file(kTokenizerData / "metaspace_split.json");
  const std::string config = R"({"added_tokens_decoder": {"900": {"content": "<s>"}}})";
  std::size_t refused = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    Random random = Random::from({11, i});
    const std::string damaged = damage(i % 2 == 0 ? json : std::string(kGood), random);
    refused +=
        refusal([&] { probe(Tokenizer::from_json(damaged, "", "t")); }) != "nothing was refused";
    for (const char* name : {"sentencepiece", "tiktoken"}) {
      const std::string model = read_file(kTokenizerData / name / "tokenizer.model");
      const test::TemporaryDirectory directory;
      directory.write("tokenizer.model", damage(model, random));
      directory.write("tokenizer_config.json", config);
      refused +=
          refusal([&] { probe(Tokenizer::open(directory.path())); }) != "nothing was refused";
    }
  }
  EXPECT_GT(refused, 300u);
}

}  // namespace
}  // namespace turnbench
