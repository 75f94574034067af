#include "judges/reply.h"

#include <gtest/gtest.h>

#include "common/random.h"

namespace turnbench {
namespace {

Rubric json_rubric(const std::string& overall = "") {
  Rubric out;
  out.low = 1;
  out.high = 5;
  out.dimensions = {"accuracy", "reading experience"};
  out.overall = overall;
  return out;
}

Rubric yes_no() {
  Rubric out;
  out.reply = Rubric::Reply::kYesNo;
  return out;
}

struct Case {
  std::string text;
  double value;  // negative: no judgement
};

void expect_all(const Rubric& rubric, const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    const ParsedReply got = parse_reply(rubric, c.text);
    EXPECT_EQ(got.error.empty(), c.value >= 0) << got.error;
    if (c.value >= 0) {
      EXPECT_EQ(got.value, c.value);
      EXPECT_EQ(got.scores.size(), rubric.dimensions.size());
    } else {
      EXPECT_TRUE(got.scores.empty());
    }
  }
}

TEST(Reply, Json) {
  const std::string good = R"({"accuracy": 4, "reading experience": 3})";
  expect_all(json_rubric(),
             {{good, 3.5},
              {"```json\n" + good + "\n```", 3.5},
              {"Well {thought} out. " + good + " Done.", 3.5},
              {"A brace { that is never closed. " + good, 3.5},
              {R"({"scores": {"accuracy": 4, "reading experience": 3}, "why": "x"})", 3.5},
              {R"({"Accuracy": 4, "Reading_Experience": 3, "why": "a } in a text"})", 3.5},
              {R"({"accuracy": "4", "reading-experience": 3.5})", 3.75},
              {"<think>" + good + "</think>" + R"({"accuracy": 1, "reading experience": 1})", 1},
              {R"({"accuracy": 0, "reading experience": 0} as asked: )" + good, 3.5},
              {good + " " + good, 3.5},
              {good + R"( {"accuracy": 4, "reading experience": 2})", -1},
              {"<think>" + good, -1},
              {"", -1},
              {"4 and 3", -1},
              {R"({"accuracy": 4})", -1},
              {R"({"accuracy": 4, "accuracy": 5, "reading experience": 3})", -1},
              {R"({"accuracy": 4, "Accuracy": 5, "reading experience": 3})", -1},
              {R"({"accuracy": 6, "reading experience": 3})", -1},
              {R"({"accuracy": 0.99, "reading experience": 3})", -1},
              {R"({"accuracy": true, "reading experience": 3})", -1},
              {R"({"accuracy": null, "reading experience": 3})", -1},
              {R"({"accuracy": [4], "reading experience": 3})", -1},
              {R"({"accuracy": "4/5", "reading experience": 3})", -1},
              {R"({"accuracy": "nan", "reading experience": 3})", -1},
              {R"({"accuracy": 1e999, "reading experience": 3})", -1},
              {R"({'accuracy': 4, 'reading experience': 3})", -1},
              {"\xff\xfe{\"accuracy\": 4, \"reading experience\": \"\xff\"}", -1},
              {good.substr(0, good.size() - 1), -1}});
  EXPECT_EQ(parse_reply(json_rubric("accuracy"), good).value, 4);
  const ParsedReply both = parse_reply(json_rubric(), good);
  EXPECT_EQ(both.scores[1].name, "reading experience");
  EXPECT_EQ(both.scores[1].value, 3);
}

// 0.1 + 0.1 + 0.1 divided by 3 exceeds 0.1 in double precision.
TEST(Reply, MeansAreWithinTheScale) {
  Rubric rubric;
  rubric.high = 0.1;
  rubric.dimensions = {"a", "b", "c"};
  EXPECT_EQ(parse_reply(rubric, R"({"a": 0.1, "b": 0.1, "c": 0.1})").value, 0.1);
}

TEST(Reply, YesOrNo) {
  expect_all(yes_no(), {{"yes", 1},
                        {"Yes.", 1},
                        {" **NO** \n", 0},
                        {"No: it names another town.", 0},
                        {"The answer is right: yes", 1},
                        {"<think>no, no</think>\nyes", 1},
                        {"Yes, though some might say no", -1},
                        {"There is no evidence", -1},
                        {"yesterday", -1},
                        {"yes\xc3\xa9", -1},
                        {"", -1},
                        {"1", -1},
                        {"<think>yes", -1}});
}

// Any bytes give a judgement within the scale or none.  A reply of many braces is parsed fast.
TEST(Reply, ParsesArbitraryText) {
  Random random(7);
  const std::string good = R"(Well: {"accuracy": 4, "reading experience": 3} <think></think> yes)";
  const Rubric rubrics[] = {json_rubric(), yes_no()};
  int read = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = good;
    for (std::uint64_t n = random.below(6); n > 0; --n) {
      const std::size_t at = random.below(text.size());
      switch (random.below(4)) {
        case 0:
          text[at] = static_cast<char>(random.below(256));
          break;
        case 1:
          text.erase(at, random.below(9));
          break;
        case 2:
          text.insert(at, text.substr(random.below(text.size()), random.below(40)));
          break;
        default:
          text.insert(at, 1, "{}\"\\[]:,"[random.below(8)]);
      }
      if (text.empty()) text = " ";
    }
    for (const Rubric& rubric : rubrics) {
      const ParsedReply got = parse_reply(rubric, text);
      if (!got.error.empty()) continue;
      ++read;
      EXPECT_GE(got.value, rubric.low) << text;
      EXPECT_LE(got.value, rubric.high) << text;
    }
  }
  EXPECT_GT(read, 1000);
  for (const char* part : {"{", "{\"", "{\"a\":", "[", "\\"}) {
    std::string text;
    while (text.size() < (1 << 20)) text += part;
    EXPECT_FALSE(parse_reply(json_rubric(), text).error.empty());
  }
}

}  // namespace
}  // namespace turnbench
