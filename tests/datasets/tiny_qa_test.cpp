#include "datasets/tiny_qa.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "common/text.h"
#include "datasets/dialogue_io.h"

namespace turnbench {
namespace {

constexpr TinyTask kTasks[] = {TinyTask::kFact, TinyTask::kHop, TinyTask::kLabel, TinyTask::kList};

/// All facts that a dialogue states up to a turn, parsed from its text: "the color of alice" ->
/// value and turn.  A key that is stated twice fails the test.
struct Stated {
  std::map<std::string, std::string> values;
  std::map<std::string, int> turns;

  void read(const Turn& turn, int index) {
    for (const Paragraph& p : turn.contexts) {
      for (std::string sentence : split(p.text, ".")) {
        sentence = trim(sentence);
        const std::size_t is = sentence.find(" is ");
        if (!sentence.starts_with("the ") || is == std::string::npos ||
            sentence.find(" of ") > is) {
          continue;  // filler
        }
        const std::string key = sentence.substr(0, is), value = sentence.substr(is + 4);
        const auto [at, is_new] = values.emplace(key, value);
        // An example of a label may be repeated, but with the same value.
        EXPECT_TRUE(is_new || (key.starts_with("the label of ") && at->second == value)) << key;
        turns.emplace(key, index);
      }
    }
  }
};

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin) + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

/// The keys of the stated values that answer a question.
std::vector<std::string> keys_of(TinyTask task, const std::string& question, const Stated& stated) {
  switch (task) {
    case TinyTask::kFact:
      return {between(question, "what is ", "?")};
    case TinyTask::kHop: {
      const std::string first = between(question, "for ", ",");
      const auto person = stated.values.find(first);
      if (person == stated.values.end()) return {first};
      return {first, "the " + between(question, "what is the ", "?") + " of " + person->second};
    }
    case TinyTask::kLabel: {
      const std::string noun = split(between(question, "label of ", "?"), " ").at(1);
      std::vector<std::string> keys;
      for (const auto& [key, value] : stated.values) {
        if (key.starts_with("the label of ") && key.ends_with(" " + noun)) keys.push_back(key);
      }
      return keys;
    }
    case TinyTask::kList: {
      std::vector<std::string> keys;
      for (const char* day : {"monday", "tuesday", "wednesday", "thursday", "friday", "saturday"})
        keys.push_back(std::string("the ") + day + " of " + between(question, "week of ", "?"));
      return keys;
    }
  }
  return {};
}

TEST(TinyQa, TheTextAnswersEveryQuestion) {
  for (TinyTask task : kTasks) {
    for (int turns : {0, 1, 2, 3, 5}) {
      for (const Dialogue& d : make_tiny_dialogues(task, {turns, 1200, 12, 3})) {
        Stated stated;
        std::set<std::string> asked;
        for (std::size_t t = 0; t < d.turns.size(); ++t) {
          const Turn& turn = d.turns[t];
          stated.read(turn, static_cast<int>(t));
          EXPECT_TRUE(asked.insert(turn.question).second) << "asked once: " << turn.question;
          const std::vector<std::string> keys = keys_of(task, turn.question, stated);
          ASSERT_FALSE(keys.empty()) << turn.question;
          std::string answer;
          std::set<std::string> sources;
          for (const std::string& key : keys) {
            ASSERT_TRUE(stated.values.contains(key)) << d.id << ": " << key;
            const std::string& value = stated.values[key];
            if (task == TinyTask::kList) {
              answer += (answer.empty() ? "" : " ") + value;
            } else {
              EXPECT_TRUE(task != TinyTask::kLabel || answer.empty() || answer == value);
              answer = value;
            }
            sources.insert("turn-" + std::to_string(stated.turns[key] + 1));
          }
          EXPECT_EQ(turn.references, std::vector<std::string>{answer}) << turn.question;
          EXPECT_NE(turn.gold.find(task == TinyTask::kList ? stated.values[keys[0]] : answer),
                    std::string::npos);
          if (task == TinyTask::kLabel) {
            EXPECT_FALSE(
                stated.values.contains("the label of " + between(turn.question, "label of ", "?")))
                << "an example of the question itself";
          } else {
            EXPECT_EQ(std::set(turn.relevance.begin(), turn.relevance.end()), sources);
          }
        }
      }
    }
  }
}

TEST(TinyQa, LengthTurnsAndAnswers) {
  for (TinyTask task : kTasks) {
    for (int length : {1000, 1900, 4000}) {
      const auto dialogues = make_tiny_dialogues(task, {0, length, 6, 1});
      ASSERT_EQ(dialogues.size(), 6u);
      for (std::size_t i = 0; i < dialogues.size(); ++i) {
        EXPECT_EQ(dialogues[i].turns.size(), 2 + i % 2);
        std::size_t words = 0;
        for (const Turn& turn : dialogues[i].turns) {
          for (const Paragraph& p : turn.contexts) {
            std::istringstream text(p.text);
            for (std::string word; text >> word;)
              words += 1 + static_cast<std::size_t>(word.ends_with(".") || word.ends_with(","));
          }
          if (task != TinyTask::kList) continue;
          EXPECT_GE(split(turn.gold, " ").size(), 40u) << "long answers";
        }
        EXPECT_NEAR(static_cast<double>(words), length, 0.12 * length) << dialogues[i].id;
      }
    }
  }
}

TEST(TinyQa, SeedDeterminesTheDialogue) {
  const auto text = [](TinyTask task, std::uint64_t seed, std::size_t count) {
    std::vector<std::string> out;
    for (const Dialogue& d : make_tiny_dialogues(task, {0, 500, count, seed}))
      out.push_back(to_json_line(d));
    return out;
  };
  for (TinyTask task : kTasks) {
    const auto once = text(task, 4, 8), few = text(task, 4, 3), other = text(task, 5, 8);
    EXPECT_EQ(once, text(task, 4, 8));
    EXPECT_EQ(std::vector(once.begin(), once.begin() + 3), few) << "fewer are the same ones";
    EXPECT_EQ(std::set(once.begin(), once.end()).size(), once.size());
    for (std::size_t i = 0; i < once.size(); ++i) EXPECT_NE(once[i], other[i]);
  }
}

}  // namespace
}  // namespace turnbench
