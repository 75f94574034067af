// Dialogues made from SQuAD and HotpotQA, on files of their formats.

#include "datasets/squad.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/json.h"
#include "common/text.h"
#include "datasets/filler.h"
#include "native_checks.h"

namespace turnbench {
namespace {

using test::load_checked;
using test::message_of;
using test::refusal;
using test::TemporaryDirectory;

constexpr int kArticles = 12, kParagraphs = 4;

/// A passage of about 60 words.
std::string text_of(const std::string& what) {
  std::string out = "The value of " + what + " is v-" + what + ".";
  for (int i = 0; i < 50; ++i) out += " word";
  return out;
}

/// Each passage has an unanswerable question and, except for the last one of an article, `form` and
/// two others.
std::string squad(const std::string& form = "Where is {}?") {
  Json data = Json::array();
  for (int a = 0; a < kArticles; ++a) {
    Json paragraphs = Json::array();
    for (int p = 0; p < kParagraphs; ++p) {
      const std::string what = fmt::format("{}.{}", a, p);
      Json questions = {{{"id", what + "x"},
                         {"question", "Not here?"},
                         {"answers", Json::array()},
                         {"plausible_answers", Json::array()},
                         {"is_impossible", true}}};
      for (const std::string& one :
           {form, std::string("What is the value of {}?"), std::string("Which value has {}?")}) {
        if (p == kParagraphs - 1) continue;
        const Json answer = {{"text", "v-" + what}, {"answer_start", 3}};
        questions.push_back({{"id", what},
                             {"question", fmt::format(fmt::runtime(one), what)},
                             {"answers", {answer, answer}},
                             {"is_impossible", false}});
      }
      paragraphs.push_back({{"context", text_of(what)}, {"qas", questions}});
    }
    data.push_back({{"title", fmt::format("Article_{}", a)}, {"paragraphs", paragraphs}});
  }
  return Json{{"version", "v2.0"}, {"data", data}}.dump();
}

/// Each record has two supporting passages and four others.
std::string hotpotqa() {
  Json records = Json::array();
  for (int r = 0; r < 12; ++r) {
    Json context = Json::array(), facts = Json::array();
    for (int p = 0; p < 6; ++p) {
      const std::string title = fmt::format("Title {}.{}", r, p);
      context.push_back({title, {text_of(title), " More."}});
      if (p == 1 || p == 4) facts.push_back({title, 0});
    }
    records.push_back({{"_id", fmt::format("r{}", r)},
                       {"question", fmt::format("What do {}.1 and {}.4 share?", r, r)},
                       {"answer", fmt::format("share {}", r)},
                       {"supporting_facts", facts},
                       {"context", context},
                       {"type", "bridge"},
                       {"level", "hard"}});
  }
  return records.dump();
}

/// The turn of each passage of a dialogue, by its source.  Expects that a passage occurs once.
std::map<std::string, std::size_t> turns_of(const Dialogue& dialogue) {
  std::map<std::string, std::size_t> out;
  for (std::size_t t = 0; t < dialogue.turns.size(); ++t) {
    for (const Paragraph& p : dialogue.turns[t].contexts)
      EXPECT_TRUE(out.emplace(p.source, t).second) << p.source;
  }
  return out;
}

std::string passage_of(const Dialogue& dialogue, const std::string& source) {
  for (const Turn& turn : dialogue.turns) {
    for (const Paragraph& p : turn.contexts) {
      if (p.source == source) return p.text;
    }
  }
  return "";
}

void expect_length(const Turn& turn, std::size_t least) {
  std::size_t found = 0;
  for (const Paragraph& p : turn.contexts) found += count_words_and_marks(p.text);
  EXPECT_GE(found, least);
  EXPECT_LT(found, least + 120) << "one passage more";
}

std::set<std::string> articles_of(const std::vector<std::string>& sources) {
  std::set<std::string> out;
  for (const std::string& source : sources) out.insert(source.substr(0, source.find('#')));
  return out;
}

class Passages : public testing::Test {
 protected:
  const TemporaryDirectory directory_;
  const std::string squad_ = directory_.write("dev-v2.0.json", squad()),
                    hotpotqa_ = directory_.write("hotpotqa.json", hotpotqa());
};

TEST_F(Passages, SquadAsksAboutPassagesOfThisAndEarlierTurns) {
  const auto dialogues = load_checked("mt-squad", directory_.path(), {.seed = 5, .length = 900});
  ASSERT_EQ(dialogues.size(), 12U) << "36 passages with questions, three in each dialogue";
  std::set<std::string> questions;
  std::map<std::size_t, int> distances;
  for (const Dialogue& d : dialogues) {
    const std::map<std::string, std::size_t> turns = turns_of(d);
    ASSERT_EQ(d.turns.size(), 3U);
    for (std::size_t t = 0; t < 3; ++t) {
      const Turn& turn = d.turns[t];
      EXPECT_TRUE(questions.insert(turn.question).second) << turn.question;
      ASSERT_EQ(turn.relevance.size(), 1U);
      ASSERT_LE(turns.at(turn.relevance[0]), t);
      ++distances[t - turns.at(turn.relevance[0])];
      ASSERT_EQ(turn.references.size(), 1U) << "equal answers once";
      const std::string passage = passage_of(d, turn.relevance[0]);
      EXPECT_TRUE(passage.starts_with("Article ")) << passage;
      EXPECT_NE(passage.find(turn.references[0] + "."), std::string::npos) << passage;
      EXPECT_NE(turn.question.find(turn.references[0].substr(2)), std::string::npos);
      expect_length(turn, 300);
    }
  }
  EXPECT_GT(distances[0], 0);
  EXPECT_GT(distances[1], 0);
  EXPECT_GT(distances[2], 0);
}

TEST_F(Passages, DistractorsAreOfOtherArticles) {
  for (const Dialogue& d : load_dialogues("mt-squad", squad_, {.turns = 2, .length = 700})) {
    std::set<std::string> asked;
    for (const Turn& turn : d.turns) asked.merge(articles_of(turn.relevance));
    int of_asked = 0;
    for (const auto& [source, turn] : turns_of(d))
      of_asked += static_cast<int>(articles_of({source}).count(*asked.begin()));
    EXPECT_LE(of_asked, 2) << "only passages with questions";
  }
}

TEST_F(Passages, ADialogueAsksAQuestionOnce) {
  const std::string file = directory_.write("same.json", squad("What is it?"));
  int asked = 0;
  for (const Dialogue& d : load_dialogues("mt-squad", file, {.length = 900})) {
    std::set<std::string> questions;
    for (const Turn& turn : d.turns) {
      EXPECT_TRUE(questions.insert(turn.question).second) << turn.question;
      asked += turn.question == "What is it?" ? 1 : 0;
    }
  }
  EXPECT_GT(asked, 0);
}

TEST_F(Passages, HotpotqaSpreadsTheSupportingPassages) {
  const auto dialogues =
      load_checked("mt-hotpotqa-distractor", directory_.path(), {.seed = 1, .length = 900});
  ASSERT_EQ(dialogues.size(), 4U);
  int earlier = 0;
  for (const Dialogue& d : dialogues) {
    const std::map<std::string, std::size_t> turns = turns_of(d);
    for (std::size_t t = 0; t < d.turns.size(); ++t) {
      const Turn& turn = d.turns[t];
      ASSERT_EQ(turn.relevance.size(), 2U);
      EXPECT_EQ(turns.at(turn.relevance[0]), t);
      EXPECT_LE(turns.at(turn.relevance[1]), t);
      earlier += turns.at(turn.relevance[1]) < t ? 1 : 0;
      const std::string record = turn.references.at(0).substr(6);
      EXPECT_EQ(turn.question, fmt::format("What do {}.1 and {}.4 share?", record, record));
      for (const std::string& source : turn.relevance)
        EXPECT_TRUE(source.starts_with(fmt::format("Title {}.", record))) << source;
      expect_length(turn, 300);
    }
  }
  EXPECT_GT(earlier, 0);
}

TEST_F(Passages, ALargerLimitOnlyAddsDialogues) {
  for (const char* name : {"mt-squad", "mt-hotpotqa-distractor"}) {
    const auto all = load_dialogues(name, directory_.path(), {.seed = 3});
    const auto some = load_dialogues(name, directory_.path(), {.seed = 3, .limit = 2});
    const auto other = load_dialogues(name, directory_.path(), {.seed = 4, .limit = 2});
    ASSERT_EQ(some.size(), 2U);
    for (std::size_t i = 0; i < some.size(); ++i) {
      for (std::size_t t = 0; t < some[i].turns.size(); ++t) {
        EXPECT_EQ(some[i].turns[t].question, all[i].turns[t].question);
        EXPECT_EQ(turns_of(some[i]), turns_of(all[i]));
      }
    }
    EXPECT_NE(some[0].turns[0].question, other[0].turns[0].question);
  }
}

TEST_F(Passages, BadFilesAndOptionsAreRefused) {
  const auto squad_of = [](const std::filesystem::path& f) { make_squad_dialogues(f, "s", {}); };
  const auto hotpotqa_of = [](const std::filesystem::path& f) {
    make_hotpotqa_dialogues(f, "h", {});
  };
  EXPECT_EQ(refusal("[]", squad_of), "F: /: found an array of 0, expected an object");
  EXPECT_EQ(refusal(R"({"data": []})", squad_of),
            "F: found 0 passages with questions, expected at least 3, one for each turn");
  EXPECT_EQ(
      refusal(R"({"data": [{"title": "t", "paragraphs": [{"context": "c", "qas": [{"question": " ",
              "answers": []}]}]}]})",
              squad_of),
      "F: /data/0/paragraphs/0/qas/0/question: found \" \", expected a question");
  EXPECT_EQ(
      refusal(R"({"data": [{"title": "t", "paragraphs": [{"context": "c", "qas": [{"question": "q",
              "answers": []}]}]}]})",
              squad_of),
      "F: /data/0/paragraphs/0/qas/0/answers: found an array of 0, expected at least one answer");
  EXPECT_EQ(refusal(R"([{"_id": "i", "question": "q", "answer": "a", "supporting_facts": [["X", 0]],
                        "context": [["Y", ["y"]]]}])",
                    hotpotqa_of),
            "F: /0/supporting_facts: found an array of 1, expected titles of the context");
  EXPECT_EQ(message_of([&] { load_dialogues("mt-squad", squad_, {.turns = 3, .length = 800}); }),
            "mt-squad: found the length 800 for 3 turns, expected at least 900");
  EXPECT_EQ(message_of([&] {
              load_dialogues("mt-squad", squad_, {.length = 9000});
            }).find(squad_ + ": found passages of "),
            0U);
  EXPECT_NE(message_of([&] {
              load_dialogues("mt-hotpotqa-distractor", hotpotqa_, {.length = 9000});
            }).find(" words and marks for a turn, expected 3000: give a smaller length"),
            std::string::npos);
  EXPECT_EQ(message_of([&] { load_dialogues("mt-squad", squad_, {.turns = 101}); }),
            "mt-squad: found 101 turns, expected from 1 to 100");
}

}  // namespace
}  // namespace turnbench
