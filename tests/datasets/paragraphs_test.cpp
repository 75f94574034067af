#include "datasets/paragraphs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "common/random.h"
#include "common/text.h"
#include "longbench_samples.h"
#include "tests/datasets/dialogue_text.h"

namespace turnbench {
namespace {

TEST(Paragraphs, SentenceBreaks) {
  EXPECT_TRUE(is_sentence_break("It rained. ", "We left."));
  EXPECT_TRUE(is_sentence_break("It rained.\n", "We left."));
  EXPECT_TRUE(is_sentence_break("\"It rained.\" ", "We left."));
  EXPECT_TRUE(is_sentence_break("(It rained!) ", "We left."));
  EXPECT_TRUE(is_sentence_break("Did it rain? ", "“Yes.”"));
  EXPECT_TRUE(is_sentence_break("welcome . ", "The meeting"));
  EXPECT_TRUE(is_sentence_break("born in 1984. ", "He"));
  EXPECT_TRUE(is_sentence_break("下雨了。", "我们走了。"));
  EXPECT_TRUE(is_sentence_break("“下雨了！”", "我们走了。"));
  EXPECT_TRUE(is_sentence_break("下雨了。\n", "We left."));

  EXPECT_FALSE(is_sentence_break("It rained", " We left."));
  EXPECT_FALSE(is_sentence_break("It rained. ", " We left.")) << "white space belongs to the first";
  EXPECT_FALSE(is_sentence_break("It cost 3.", "50"));
  EXPECT_FALSE(is_sentence_break("\"Why?\" ", "he asked."));
  EXPECT_FALSE(is_sentence_break("Mr. ", "Smith"));
  EXPECT_FALSE(is_sentence_break("J. ", "Smith"));
  EXPECT_FALSE(is_sentence_break("the U.S. ", "Navy"));
  EXPECT_FALSE(is_sentence_break("(e.g. ", "Kant)"));
  EXPECT_FALSE(is_sentence_break("1. ", "First"));
  EXPECT_FALSE(is_sentence_break("“下雨了！", "”他说"));
  EXPECT_FALSE(is_sentence_break("什么！", "！"));
  EXPECT_FALSE(is_sentence_break("", ""));
}

TEST(Paragraphs, MarkedParagraphsAreCutAtTheirMarkersAlone) {
  const ContextLayout passages = {SplitRule::kNever, "Passage ", true, ":", ""};
  EXPECT_EQ(split_context("Passage 1:\nA.\n\nB.\nPassage 2:\nsee Passage 1: there\nPassage x:\nC",
                          passages),
            (std::vector<std::string>{"Passage 1:\nA.\n\nB.",
                                      "Passage 2:\nsee Passage 1: there\nPassage x:\nC"}));
  const ContextLayout zh = {SplitRule::kNever, "段落", true, "：", ""};
  EXPECT_EQ(split_context("段落1：甲。\n\n段落2：乙。", zh),
            (std::vector<std::string>{"段落1：甲。", "段落2：乙。"}));
}

TEST(Paragraphs, AnExampleEndsAfterItsAnswer) {
  const ContextLayout layout = {SplitRule::kNever, "Dialogue: ", false, "", "\nSummary:"};
  EXPECT_EQ(split_context("Dialogue: A: hi\nDialogue: not a new one\nSummary: Hi.\n"
                          "Dialogue: B: yo\nSummary: Yo. \n",
                          layout),
            (std::vector<std::string>{"Dialogue: A: hi\nDialogue: not a new one\nSummary: Hi.",
                                      "Dialogue: B: yo\nSummary: Yo."}));
}

TEST(Paragraphs, TextBeforeTheFirstMarkerIsKept) {
  const ContextLayout layout = {SplitRule::kNever, "Passage ", true, ":", ""};
  EXPECT_EQ(split_context("\n\nIntroduction\nPassage 1: A", layout),
            (std::vector<std::string>{"Introduction", "Passage 1: A"}));
  EXPECT_TRUE(split_context(" \n\t\n", layout).empty());
  EXPECT_TRUE(split_context("", layout).empty());
}

TEST(Paragraphs, CodeKeepsItsIndentation) {
  std::string code;
  for (int i = 0; i < 100; ++i) code += "    value = compute(value)\n";
  for (const std::string& piece : split_context(code, {.split = SplitRule::kCode})) {
    EXPECT_TRUE(piece.starts_with("    value")) << piece;
    EXPECT_TRUE(piece.ends_with("(value)")) << piece;
    EXPECT_LE(piece.size(), kShortParagraph + 30);
  }
}

TEST(Paragraphs, CommentBlocksAreNotSplit) {
  const std::string code = std::string(600, 'x') + "\n// one sentence that\n// goes on\nint a;\n";
  EXPECT_EQ(split_context(code, {.split = SplitRule::kCode}).size(), 2u);
  const std::string inside = "// " + std::string(600, 'x') + "\n// goes on\nint a;\n";
  EXPECT_EQ(split_context(inside, {.split = SplitRule::kCode}),
            (std::vector<std::string>{"// " + std::string(600, 'x') + "\n// goes on", "int a;"}));
}

TEST(Paragraphs, BlankLinesWithinASentenceDoNotCut) {
  const std::string half(600, 'x');
  EXPECT_EQ(split_context(half + "\n\ngoes on.\n\nNext", {}).size(), 2u);
  std::string zh;
  for (int i = 0; i < 200; ++i) zh += "字";
  EXPECT_EQ(split_context(zh + "\r\n\r\n接着。", {}).size(), 1u);
}

/// Splits a text of sentences, some of which end with line ends or blank lines.  Expects that
/// paragraphs begin only where sentences begin.
void check_sentences_stay_whole(bool chinese, SplitRule split) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Random random(seed);
    const auto sentences = test::make_sentences(120, seed, chinese);
    std::string text;
    std::set<std::size_t> ends;  // in characters other than white space
    std::size_t count = 0;
    for (const std::string& sentence : sentences) {
      text += sentence;
      count += test::without_space(sentence).size();
      ends.insert(count);
      const std::uint64_t gap = random.below(8);
      text += gap == 0 ? "\n\n" : gap == 1 ? "\n" : chinese ? "" : " ";
    }
    const auto paragraphs = split_context(text, {.split = split});
    EXPECT_EQ(test::without_space(join(paragraphs, "")), test::without_space(text));
    EXPECT_GT(paragraphs.size(), 4u);
    count = 0;
    for (const std::string& paragraph : paragraphs) {
      count += test::without_space(paragraph).size();
      EXPECT_TRUE(ends.contains(count))
          << "cut within a sentence after: " << paragraph.substr(paragraph.size() - 40);
      EXPECT_LT(paragraph.size(), kLongParagraph + 300);
    }
  }
}

TEST(Paragraphs, SentencesAreNotSplit) {
  check_sentences_stay_whole(false, SplitRule::kProse);
  check_sentences_stay_whole(true, SplitRule::kProse);
}

TEST(Paragraphs, SpeakersLinesAreNotSplit) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "Professor A: so what I meant was {vocalsound}\n";
  const auto paragraphs = split_context(text, {.split = SplitRule::kLines});
  EXPECT_GT(paragraphs.size(), 5u);
  for (const std::string& paragraph : paragraphs) {
    EXPECT_TRUE(paragraph.starts_with("Professor A:"));
    EXPECT_TRUE(paragraph.ends_with("{vocalsound}"));
  }
}

TEST(Paragraphs, RandomBytesLoseNothing) {
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (int i = 0; i < 3000; ++i) {
      text += random.below(4) == 0 ? "\n. ?\"a。"[random.below(8)]
                                   : static_cast<char>(random.below(256));
    }
    for (SplitRule split :
         {SplitRule::kNever, SplitRule::kProse, SplitRule::kLines, SplitRule::kCode}) {
      const auto paragraphs = split_context(text, {.split = split});
      EXPECT_EQ(test::without_space(join(paragraphs, "")), test::without_space(text));
    }
  }
}

}  // namespace
}  // namespace turnbench
