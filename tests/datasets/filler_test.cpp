#include "datasets/filler.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "common/file.h"
#include "common/text.h"
#include "datasets/vocabulary.h"
#include "longbench_samples.h"

namespace turnbench {
namespace {

TEST(Filler, CountsWordsAndMarks) {
  for (const auto& [text, count] :
       std::vector<std::pair<std::string, std::size_t>>{{"", 0},
                                                        {"  \n\t", 0},
                                                        {"the color of alice is red.", 7},
                                                        {"don't, ever!", 4},
                                                        {"12. quiet-river", 5},
                                                        {"...", 3},
                                                        {"\"a1-b2\": \"c\",", 10},
                                                        {"Zürich 数据", 2}}) {
    EXPECT_EQ(count_words_and_marks(text), count) << text;
  }
}

TEST(Filler, UuidsAreOfVersionFour) {
  Random random(1);
  const std::regex form("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}");
  std::set<std::string> seen;
  std::string variants;
  for (int i = 0; i < 200; ++i) {
    const std::string uuid = random_uuid(random);
    EXPECT_TRUE(std::regex_match(uuid, form)) << uuid;
    EXPECT_TRUE(seen.insert(uuid).second);
    variants += uuid[19];
  }
  for (char c : {'8', '9', 'a', 'b'}) EXPECT_NE(variants.find(c), std::string::npos);
}

TEST(Filler, GeneratedSentencesAreManyAndHaveNoDigits) {
  Random random(7);
  const SentenceGenerator next = random_sentences(random);
  const std::regex article("\\b([Aa] [aeiou]|[Aa]n [^aeiou])");
  std::set<std::string> seen;
  for (int i = 0; i < 3000; ++i) {
    const std::string sentence = next();
    EXPECT_EQ(sentence.find_first_of("0123456789{}\n"), std::string::npos) << sentence;
    EXPECT_EQ(sentence.find("  "), std::string::npos) << sentence;
    EXPECT_TRUE(sentence.ends_with('.')) << sentence;
    EXPECT_FALSE(std::regex_search(sentence, article)) << sentence;
    seen.insert(sentence);
  }
  EXPECT_GT(seen.size(), 2900u);
}

TEST(Filler, NoCompoundContainsAnother) {
  using namespace vocabulary;
  for (std::string_view a : adjectives()) {
    for (std::string_view b : adjectives()) EXPECT_TRUE(a == b || !a.ends_with(b)) << a << b;
  }
  for (std::string_view a : nouns()) {
    for (std::string_view b : nouns()) EXPECT_TRUE(a == b || !a.starts_with(b)) << a << b;
  }
  for (std::string_view a : rooms()) {
    for (std::string_view b : rooms()) EXPECT_TRUE(a == b || a.find(b) == a.npos) << a << b;
  }
}

TEST(Filler, ListsHaveNoDuplicates) {
  using namespace vocabulary;
  for (const auto& list : {adjectives(), nouns(), roles(), sites(), topics(), activities(),
                           adverbs(), materials(), objects(), people(), rooms()}) {
    EXPECT_EQ(std::set<std::string_view>(list.begin(), list.end()).size(), list.size())
        << list.front();
  }
}

TEST(Filler, ReadsSentencesOfADirectoryInOrder) {
  const test::TemporaryDirectory directory;
  directory.write("b.txt", "Third one? Yes,\nit is.");
  directory.write("a.txt", "First  one.\r\n\r\nA heading\n\nMr. Smith's second.");
  directory.write("c.md", "Not this.");
  const std::vector<std::string> expected = {"First one.", "A heading", "Mr. Smith's second.",
                                             "Third one?", "Yes, it is."};
  EXPECT_EQ(read_sentences(directory.path()), expected);
  EXPECT_EQ(read_sentences(directory.path() / "b.txt").size(), 2u);
  Random random(3);
  const SentenceGenerator next = cyclic_sentences(expected, random);
  const std::string first = next();
  std::vector<std::string> cycle = {first};
  for (int i = 0; i < 4; ++i) cycle.push_back(next());
  EXPECT_EQ(next(), first);
  const auto at = std::find(cycle.begin(), cycle.end(), "First one.");
  std::rotate(cycle.begin(), at, cycle.end());
  EXPECT_EQ(cycle, expected);
}

TEST(Filler, RejectsOtherFiles) {
  const test::TemporaryDirectory directory;
  const auto refusal = [&] { return test::message_of([&] { read_sentences(directory.path()); }); };
  EXPECT_EQ(refusal(), directory.path().string() + ": found no .txt file, expected at least one");
  const auto file = directory.write("a.txt", " \n ");
  EXPECT_EQ(refusal(), file + ": found no text, expected sentences");
  directory.write("a.txt", "ab\xFFzz.");
  EXPECT_EQ(refusal(), file + ": byte 2: found 0xff, expected well-formed UTF-8");
  EXPECT_NE(test::message_of([&] { read_sentences(directory.path() / "no"); }), "no error");
}

}  // namespace
}  // namespace turnbench
