#include "tests/text/tokenizer_fuzz.h"

#include <gtest/gtest.h>

#include "common/error.h"
#include "inference/model/embedded_model.h"
#include "tests/parameter_name.h"
#include "text/tokenizer/tokenizer.h"

// Compares ids, decoded texts and offsets with the reference packages for 20,000 fuzz texts per
// style of tokenizer: tests/golden/make_tokenizer_golden.py.

namespace turnbench {
namespace {

struct TextOptions {
  explicit TextOptions(std::uint64_t index)
      : encode{.parse_special = index % 2 == 1, .add_special = index % 3 == 0},
        skip_special(index % 5 == 0) {}
  Tokenizer::Options encode;
  bool skip_special;
};

/// Compares with the golden file up to the first block of texts that differs.
void compare(const Tokenizer& tokenizer, const Json& golden, bool sentencepiece = false) {
  const std::uint64_t block = fuzz_texts().number("block");
  const std::string ids_golden = golden["ids"];
  const std::string texts_golden = golden.value("texts", "");
  const std::string ends_golden = golden.value("ends", "");
  for (std::uint64_t b = 0; b < ids_golden.size() / 16; ++b) {
    FuzzHash ids_hash, texts_hash, ends_hash;
    for (std::uint64_t index = b * block; index < (b + 1) * block; ++index) {
      TextOptions options(index);
      if (sentencepiece) {  // never parses or prints control tokens
        options.encode.parse_special = false;
        options.skip_special = true;
      }
      const std::string text = fuzz_texts().text(index);
      std::vector<std::size_t> ends;
      const std::vector<int> ids = tokenizer.encode(text, options.encode, ends);
      ids_hash.add_numbers(ids);
      texts_hash.add(tokenizer.decode(ids, options.skip_special));
      texts_hash.add(std::string_view("\0", 1));
      if (!options.encode.add_special) ends_hash.add_numbers(ends);
    }
    const auto place = fmt::format("texts {} to {}", b * block, (b + 1) * block - 1);
    EXPECT_EQ(ids_hash.hex(), ids_golden.substr(16 * b, 16)) << "ids of the " << place;
    if (!texts_golden.empty()) {
      EXPECT_EQ(texts_hash.hex(), texts_golden.substr(16 * b, 16)) << "decoded " << place;
    }
    if (!ends_golden.empty()) {
      EXPECT_EQ(ends_hash.hex(), ends_golden.substr(16 * b, 16)) << "ends in the " << place;
    }
    if (testing::Test::HasFailure()) return;
  }
}

/// Compares decoded random ids; few of them are well-formed UTF-8.
void compare_decoded(const Tokenizer& tokenizer, const Json& golden, bool sentencepiece = false) {
  if (!golden.contains("decoded")) return;
  std::vector<int> known;
  for (int id = 0; id < tokenizer.vocab_size(); ++id) {
    try {
      if (!sentencepiece || tokenizer.token_text(id) != "<unk>") known.push_back(id);
    } catch (const Error&) {
    }
  }
  FuzzHash hash;
  for (std::uint64_t index = 0; index < fuzz_texts().number("id_lists"); ++index) {
    Random random = Random::from({fuzz_texts().number("id_seed"), index});
    std::vector<int> ids(1 + random.below(12));
    for (int& id : ids) id = known[random.below(known.size())];
    const TextOptions options(index);
    hash.add(tokenizer.decode(ids, options.skip_special || sentencepiece));
    hash.add(std::string_view("\0", 1));
  }
  EXPECT_EQ(hash.hex(), golden["decoded"].get<std::string>());
}

const Json& golden() {
  static const Json json = load_json(kTokenizerData / "golden.json");
  return json;
}

class TokenizerFuzz : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerFuzz, AgreesWithTokenizersPackage) {
  const std::filesystem::path path = kTokenizerData / (std::string(GetParam()) + ".json");
  const Tokenizer tokenizer = Tokenizer::from_json(read_file(path), "", path.string());
  compare(tokenizer, golden()[GetParam()]);
  compare_decoded(tokenizer, golden()[GetParam()]);
}

INSTANTIATE_TEST_SUITE_P(Styles, TokenizerFuzz,
                         testing::Values("gpt2", "roberta", "llama3", "qwen2", "falcon",
                                         "starcoder", "deepseek", "deepseek3", "o200k", "cl100k",
                                         "llama2", "metaspace", "metaspace_split", "behaviors",
                                         "whitespace", "nfd"),
                         [](const auto& info) { return std::string(info.param); });

TEST(TokenizerFuzz, AgreesWithSentencePiece) {
  for (const char* name : {"sentencepiece", "sentencepiece_unk"}) {
    SCOPED_TRACE(name);
    const Tokenizer tokenizer = Tokenizer::open(kTokenizerData / name);
    compare(tokenizer, golden()[name], true);
    compare_decoded(tokenizer, golden()[name], true);
  }
}

TEST(TokenizerFuzz, AgreesWithTiktoken) {
  const Tokenizer tokenizer = Tokenizer::open(kTokenizerData / "tiktoken");
  compare(tokenizer, golden()["tiktoken"]);
  compare_decoded(tokenizer, golden()["tiktoken"]);
}

TEST(TokenizerFuzz, EmbeddedTokenizerAgreesWithTokenizersPackage) {
  const Tokenizer tokenizer =
      Tokenizer::from_json(embedded::tokenizer(), embedded::tokenizer_config(), "tiny");
  compare(tokenizer, golden()["tiny"]);
  compare_decoded(tokenizer, golden()["tiny"]);
}

class RealTokenizerFuzz : public testing::TestWithParam<std::string> {};

TEST_P(RealTokenizerFuzz, AgreesWithItsPackage) {
  if (!std::filesystem::exists(kRealTokenizers)) GTEST_SKIP() << "no ../shared/data/tokenizers";
  const std::string name = GetParam();
  const Tokenizer tokenizer = Tokenizer::open(kRealTokenizers / name);
  compare(tokenizer, golden()["real"][name], name == "llama2");
  compare_decoded(tokenizer, golden()["real"][name], name == "llama2");
}

INSTANTIATE_TEST_SUITE_P(Names, RealTokenizerFuzz,
                         testing::Values("mistral-7b-v0.2", "llama2", "llama3", "qwen2.5"),
                         test::parameter_name);

}  // namespace
}  // namespace turnbench
