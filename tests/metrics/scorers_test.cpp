#include "metrics/scorers.h"

#include <gtest/gtest.h>

#include "common/error.h"
#include "metrics/normalize.h"

namespace turnbench::scorers {
namespace {

using Strings = std::vector<std::string>;

/// `count` words "PREFIX0 PREFIX1 ...".
std::string words(const std::string& prefix, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += (i == 0 ? "" : " ") + prefix + std::to_string(i);
  return out;
}

TEST(Normalize, English) {
  EXPECT_EQ(normalize_english("  The Eiffel\tTower, a well-known_thing!"),
            "eiffel tower wellknownthing");
  EXPECT_EQ(normalize_english("theatre an\u2019s \u201Ca\u201D"), "theatre \u2019s \u201C \u201D");
  EXPECT_EQ(normalize_english("a\u0301b the1 the\u3000end"), "\u0301b the1 end");
  EXPECT_EQ(normalize_english("A. An! THE?"), "");
}

TEST(Normalize, Chinese) {
  EXPECT_EQ(normalize_chinese("  ＡBC，你 好！…—“x”　-_"), "ａbc你好x");
}

TEST(QaF1, WorkedExamples) {
  EXPECT_DOUBLE_EQ(qa_f1("The Eiffel Tower, Paris.", "eiffel tower"), 0.8);
  EXPECT_EQ(qa_f1("well-known", "well known"), 0.0);
  EXPECT_DOUBLE_EQ(qa_f1("Answer: New York\nextra words", "New York"), 0.5714285714285715);
  EXPECT_EQ(qa_f1("", ""), 0.0);
  EXPECT_DOUBLE_EQ(qa_f1("x x y", "x x x"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(character_f1("北京。", "北京市"), 0.8);
}

TEST(Rouge, WorkedExamples) {
  const auto f = [](std::string_view prediction, std::string_view reference) {
    return rouge(prediction, reference).f;
  };
  EXPECT_DOUBLE_EQ(f("the cat sat on the mat", "the cat lay on the mat"), 0.7999999950000002);
  EXPECT_DOUBLE_EQ(f("x y", "y x"), 0.4999999950000001);
  EXPECT_DOUBLE_EQ(f("x y z", "z y x"), 0.3333333283333334);
  EXPECT_DOUBLE_EQ(f("a b. ", "a b."), 0.7999999952000001);
  EXPECT_DOUBLE_EQ(f("a. a. a.", "a"), 0.999999995);
  EXPECT_DOUBLE_EQ(f("U.S. report", "The U.S. report"), 0.8571428522448981);
  EXPECT_DOUBLE_EQ(f("one two three four five", "five four three two one"), 0.19999999500000015);
  EXPECT_DOUBLE_EQ(f("w1 w2 w6 w7 w8. w1 w3 w8 w9 w5", "w1 w2 w3 w4 w5"), 0.6153846106508877);
  EXPECT_EQ(f("The Cat", "the cat"), 0.0);
  EXPECT_EQ(f("...", "a"), 0.0);
  EXPECT_EQ(f("a", ""), 0.0);
  EXPECT_DOUBLE_EQ(f(" ", "\n"), 0.999999995);  // two blank sentences, which share the empty word
}

TEST(Rouge, StopsAtTheOriginalsRecursionLimit) {
  // Measured with rouge 1.0.1 on CPython 3.11, at LongBench's call depth.
  for (int length : {989, 990, 991, 992}) {
    const std::string text = words("w", length);
    const bool fails = length > 990, fails_zh = length > 989;
    EXPECT_EQ(rouge(text, text).recursion_zero, fails) << length;
    EXPECT_EQ(rouge(text, text).f, fails ? 0 : 0.999999995) << length;
    EXPECT_EQ(rouge(text, text, kMaxRougeZhSteps).recursion_zero, fails_zh) << length;
  }
  // Only the first word matches: the walk goes left to the first column, then up.
  for (int length : {494, 495, 496, 501}) {
    const RougeL score = rouge("s " + words("p", length - 1), "s " + words("r", length - 1));
    EXPECT_EQ(score.recursion_zero, length > 495) << length;
    EXPECT_EQ(score.f > 0, length <= 495) << length;
  }
  // Nothing matches: the walk goes along the prediction.
  EXPECT_FALSE(rouge(words("p", 990), "q").recursion_zero);
  EXPECT_TRUE(rouge(words("p", 991), "q").recursion_zero);
  EXPECT_FALSE(rouge("q", words("r", 5000)).recursion_zero);
  // A single long sentence suffices.
  EXPECT_TRUE(rouge("q. " + words("p", 991), "q").recursion_zero);
}

TEST(RougeLRecall, IsLcsDividedByReferenceLength) {
  EXPECT_DOUBLE_EQ(rouge_l_recall("the cat sat on the mat", "the cat lay on the mat"), 5.0 / 6);
  EXPECT_DOUBLE_EQ(rouge_l_recall("a b c d", "d c"), 0.5);
  EXPECT_EQ(rouge_l_recall("anything else", "anything"), 1.0);
  EXPECT_EQ(rouge_l_recall("The", "the"), 0.0);
  EXPECT_EQ(rouge_l_recall("a", " \n"), 0.0);
}

TEST(RougeScore, WorkedExamples) {
  EXPECT_DOUBLE_EQ(rouge_score_l("The cat!", "the cat"), 1.0);
  EXPECT_EQ(rouge_score_l("中文", "中文"), 0.0);
  EXPECT_EQ(rouge_score_lsum("", "a"), 0.0);
  // rougeLsum matches the words of a line in any line of the reference; rougeL compares one
  // sequence.
  EXPECT_DOUBLE_EQ(rouge_score_lsum("b c\na", "a\nb c"), 1.0);
  EXPECT_DOUBLE_EQ(rouge_score_l("b c\na", "a\nb c"), 2.0 / 3);
}

TEST(Classification, ReproducesRemovalDuringIteration) {
  const Strings classes = {"A", "AB", "ABC"};
  EXPECT_DOUBLE_EQ(classification("ABC", "ABC", classes), 0.5);
  EXPECT_DOUBLE_EQ(classification("AB", "AB", classes), 1.0);
  EXPECT_EQ(classification("AB", "ABC", classes), 0.0);
  EXPECT_EQ(classification("abc", "ABC", classes), 0.0);
  EXPECT_DOUBLE_EQ(classification("Food or City", "City", Strings{"Food", "City", "Date"}), 0.5);
  EXPECT_THROW(classification("A", "A", {}), Error);
}

TEST(Accuracy, UsesTheFirstLabelInTheAnswer) {
  const Strings classes = {"Food", "Food other", "City", "The"};
  EXPECT_EQ(accuracy("Type: food. Not city.", "Food", classes), 1.0);
  EXPECT_EQ(accuracy("City, food", "Food", classes), 0.0);
  EXPECT_EQ(accuracy("food other", "Food", classes), 0.0);
  EXPECT_EQ(accuracy("food other", "Food other", classes), 1.0);
  EXPECT_EQ(accuracy("nothing", "Food", classes), 0.0);
  EXPECT_EQ(accuracy("The city.", "City", {}), 1.0);
  EXPECT_EQ(accuracy("City of York", "City", {}), 0.0);
}

TEST(ExactMatch, ComparesNormalisedTexts) {
  EXPECT_EQ(exact_match("The Paris.", "paris"), 1.0);
  EXPECT_EQ(exact_match("Paris, France", "paris"), 0.0);
}

TEST(CountAndRetrieval, ShareOfTheNumbers) {
  EXPECT_EQ(count("There are 3.", "3"), 1.0);
  EXPECT_EQ(count("03", "3"), 0.0);
  EXPECT_EQ(count("none", "3"), 0.0);
  EXPECT_EQ(count("3 ３", "３"), 0.5);
  EXPECT_EQ(retrieval("3 or 13", "Paragraph 3"), 0.5);
  EXPECT_EQ(retrieval("Paragraph 30", "Paragraph 3"), 0.0);
  EXPECT_EQ(retrieval("7", "Paragraph x, Paragraph 7, Paragraph 8"), 1.0);
  EXPECT_EQ(retrieval_zh("答案是段落12", "段落12"), 1.0);
  EXPECT_THROW(retrieval("3", "paragraph 3"), Error);
  EXPECT_THROW(retrieval_zh("3", "Paragraph 3"), Error);
}

TEST(CodeSim, DifflibAndLevenshteinDiffer) {
  EXPECT_EQ(code_sim("tide", "diet"), 0.25);
  EXPECT_EQ(code_sim("diet", "tide"), 0.5);
  EXPECT_EQ(code_sim_levenshtein("tide", "diet"), 0.5);
  EXPECT_EQ(code_sim_levenshtein("diet", "tide"), 0.5);
  // python-Levenshtein computes 1 - distance / length, here just above 42.5%.
  const std::string common(17, 'x');
  EXPECT_EQ(code_sim_levenshtein(common + std::string(23, 'p'), common + std::string(23, 'q')),
            0.43);
  EXPECT_EQ(code_sim(common + std::string(23, 'p'), common + std::string(23, 'q')), 0.42);
}

TEST(CodeSim, TakesTheFirstLineWithoutFenceOrComment) {
  EXPECT_EQ(code_sim("\n\n```python\nx = 1 # one\n  y = 2\nz", "  y = 2"), 1.0);
  EXPECT_EQ(code_sim("\nhttp://a\n", ""), 1.0);  // the last line, which is empty
  EXPECT_EQ(code_sim("# a\n// b", ""), 1.0);     // no line qualifies
  EXPECT_EQ(code_sim("   \ny", "y"), 0.0);       // a blank line qualifies
  EXPECT_EQ(code_sim("", "y"), 0.0);
}

TEST(CodeSim, IgnoresPopularCharactersOfLongReferences) {
  const std::string line = "abc" + std::string(97, 'x');
  const std::string reference = std::string(199, 'x');
  EXPECT_EQ(code_sim(line, reference), 0.65);              // 199 characters: 2 * 97 / 299
  EXPECT_EQ(code_sim(line, reference + "x"), 0.0);         // 200: x is junk as a seed
  EXPECT_EQ(code_sim("x" + line, reference + "x"), 0.01);  // equal ends extend the match
}

TEST(Ruler, ReferencesOccurRegardlessOfCase) {
  const Strings references = {"Alpha", "beta"};
  EXPECT_EQ(ruler_match_all("ALPHA.", references), 0.5);
  EXPECT_EQ(ruler_match_part("ALPHA.", references), 1.0);
  EXPECT_EQ(ruler_match_part("gamma", references), 0.0);
  EXPECT_THROW(ruler_match_all("x", {}), Error);
}

TEST(Gsm8k, ComparesTheLastNumbers) {
  EXPECT_EQ(gsm8k("5 + 13 = 18 dollars.", "a <<1+1=2>>2\n#### 18"), 1.0);
  EXPECT_EQ(gsm8k("It is 1,234.50", "#### 1234.5"), 1.0);
  EXPECT_EQ(gsm8k("18\nQuestion: 19", "#### 18"), 1.0);
  EXPECT_EQ(gsm8k("no number", "#### 18"), 0.0);
  EXPECT_EQ(gsm8k("18 or 19", "#### 18"), 0.0);
  EXPECT_THROW(gsm8k("18", "none"), Error);
}

TEST(LongBenchWrite, CountsAndScoresLengths) {
  EXPECT_EQ(longbench_write_words("Two words, x1 naïve don't 汉字 中abc"), 7u);
  EXPECT_EQ(longbench_write_length(words("w ", 0) + "one two", "2"), 1.0);
  EXPECT_DOUBLE_EQ(longbench_write_length("a b c", "2"), 1 - 0.5 / 3);
  EXPECT_DOUBLE_EQ(longbench_write_length("a b", "3"), 1 - 0.5 / 2);
  EXPECT_EQ(longbench_write_length("a", "3"), 0.0);
  EXPECT_EQ(longbench_write_length("", "3"), 0.0);
  EXPECT_THROW(longbench_write_length("a", "0"), Error);
  EXPECT_THROW(longbench_write_length("a", "many"), Error);
}

}  // namespace
}  // namespace turnbench::scorers
