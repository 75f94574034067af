#include "text/tokenizer/unicode_regex.h"

#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/text/tokenizer_fuzz.h"
#include "text/tokenizer/pre_tokenizer.h"

namespace turnbench {
namespace {

const Json& golden_regexes() {
  static const Json json = load_json(kTokenizerData / "regex.json");
  return json;
}

// Compares with Oniguruma as in the `tokenizers` package; see
// tests/golden/make_tokenizer_golden.py.
TEST(UnicodeRegex, SplitsTextsAsOniguruma) {
  for (const Json& split : golden_regexes()["splits"]) {
    const std::string pattern = split["pattern"];
    const Splitter splitter(UnicodeRegex::compile(pattern, "test"), Splitter::Behavior::kIsolated);
    for (std::size_t i = 0; i < split["pieces"].size(); ++i) {
      const std::string text = golden_regexes()["texts"][i];
      std::vector<TextRange> ranges{{0, text.size()}};
      splitter.apply(text, ranges);
      std::vector<std::string> pieces;
      for (TextRange r : ranges) pieces.push_back(text.substr(r.begin, r.end - r.begin));
      EXPECT_EQ(pieces, split["pieces"][i].get<std::vector<std::string>>())
          << pattern << " in " << printable(text);
    }
  }
}

// All code points that are assigned in Unicode 14, except for private use.
TEST(UnicodeRegex, CharacterClassesEqualOnigurumas) {
  Json all = Json::array();
  const Json fuzz = load_json(kTokenizerData / "fuzz.json");
  for (const Json& pool : fuzz["pools"]) {
    const Json ranges = pool.value("ranges", Json::array());
    if (ranges.size() > all.size()) all = ranges;
  }
  std::u32string assigned;
  for (const Json& range : all) {
    for (char32_t c = range[0]; c <= char32_t{range[1]}; ++c) assigned += c;
  }
  ASSERT_GT(assigned.size(), 140'000u);
  const std::string text = to_utf8(assigned);
  for (const auto& [pattern, hash] : golden_regexes()["classes"].items()) {
    RegexMatcher matcher(UnicodeRegex::compile(pattern, "test"));
    matcher.start(text);
    FuzzHash members;
    for (TextRange match; matcher.next(match);) {
      members.add(std::string_view(text).substr(match.begin, match.end - match.begin));
    }
    EXPECT_EQ(members.hex(), hash.get<std::string>()) << pattern;
  }
}

TEST(UnicodeRegex, RejectsUnsupportedPatterns) {
  for (const char* pattern : {"(",
                              ")",
                              "a)",
                              "[a",
                              "[]",
                              "[^]",
                              "*",
                              "a**",
                              "\\",
                              "\\p{Nonsense}",
                              "\\p{}",
                              "\\pL",
                              "\\p{Script=Greek}",
                              "\\bword",
                              "\\h",
                              "\\R",
                              "\\X",
                              "\\1",
                              "\\k<n>",
                              "(?<n>a)",
                              "(?P<n>a)",
                              "(?#a)",
                              "(?x: a)",
                              "a(?i)b",
                              "(*FAIL)",
                              "[[:alpha:]]",
                              "[a[b]]",
                              "[a&&b]",
                              "[\\W]",
                              "\\xff",
                              "\\xZZ",
                              "\\x{110000}",
                              "\\x{",
                              "\\u12",
                              "a{2}?",
                              "a{1,2}+",
                              "a{3,1}",
                              "(?<=a+)b",
                              "[z-a]",
                              "(?i:mass)",
                              "(?i:First|X)",
                              "(?i)Fl",
                              "(?i:\u00df)",
                              "(?i:[a-z\ufb01])",
                              "a\\\n"}) {
    try {
      UnicodeRegex::compile(pattern, "file: place");
      ADD_FAILURE() << pattern;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kInput);
      EXPECT_TRUE(std::string(e.what()).starts_with("file: place: found ")) << e.what();
      EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    }
  }
}

// Quantifiers backtrack as in Oniguruma 6.9.8.
TEST(UnicodeRegex, QuantifiersBacktrack) {
  struct Case {
    const char *pattern, *text;
    std::size_t end;
  };
  for (const Case& c : {Case{R"(\P{L}+\P{N})", "..", 2}, Case{R"(\P{L}?\P{N})", "_", 1},
                        Case{R"(\P{Lu}+\P{Nd})", "..", 2}, Case{R"(\d+(?:x)?+\w)", "123", 3},
                        Case{R"(a+(?:x)?+a)", "aaa", 3}, Case{R"(\w+(?:')?+\S)", "sa1", 3}}) {
    RegexMatcher matcher(UnicodeRegex::compile(c.pattern, "test"));
    matcher.start(c.text);
    TextRange match;
    ASSERT_TRUE(matcher.next(match)) << c.pattern;
    EXPECT_EQ(match, (TextRange{0, c.end})) << c.pattern;
  }
}

// Yi is a script with a two-letter name, not a category.  U+3001 is used with Yi but is not part of
// it.
TEST(UnicodeRegex, SupportsTheScriptYi) {
  for (const char* pattern : {R"(\p{Yi}+)", R"(\p{yi}+)"}) {
    RegexMatcher matcher(UnicodeRegex::compile(pattern, "test"));
    matcher.start("\u3001\ua000\u3001");
    TextRange match;
    ASSERT_TRUE(matcher.next(match));
    EXPECT_EQ(match, (TextRange{3, 6}));
  }
}

TEST(UnicodeRegex, MatchesLiteralsVerbatim) {
  RegexMatcher matcher(UnicodeRegex::literal("a.*["));
  matcher.start("aaa a.*[ a.*[");
  TextRange match;
  ASSERT_TRUE(matcher.next(match));
  EXPECT_EQ(match, (TextRange{4, 8}));
  ASSERT_TRUE(matcher.next(match));
  EXPECT_EQ(match, (TextRange{9, 13}));
  EXPECT_FALSE(matcher.next(match));
}

// A pattern that exceeds the stack of the compiled matcher must not fail.
TEST(UnicodeRegex, LongMatchesOfGroups) {
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "ab ";
  RegexMatcher matcher(UnicodeRegex::compile("(?:a(?:b|c) ?)+", "test"));
  matcher.start(text);
  TextRange match;
  ASSERT_TRUE(matcher.next(match));
  EXPECT_EQ(match, (TextRange{0, text.size()}));
}

}  // namespace
}  // namespace turnbench
