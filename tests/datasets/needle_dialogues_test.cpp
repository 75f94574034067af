#include "datasets/needle_dialogues.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <regex>
#include <set>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "datasets/catalog.h"
#include "datasets/dialogue_io.h"
#include "datasets/filler.h"
#include "longbench_samples.h"
#include "tests/datasets/dialogue_text.h"

namespace turnbench {
namespace {

using Answers = std::vector<std::string>;

const NeedleTask& kind_named(std::string_view name) {
  for (const NeedleTask& kind : needle_tasks()) {
    if (kind.name == name) return kind;
  }
  throw runtime_error("no kind {}", name);
}

/// Options with a value for everything that has no default.
BuildOptions needle_options(int turns, int length, std::size_t limit = 6, std::uint64_t seed = 3) {
  return {.turns = turns, .seed = seed, .limit = limit, .length = length};
}

std::vector<Dialogue> make(const NeedleTask& kind, const BuildOptions& options) {
  return make_needle_dialogues(kind, std::string(kind.name), {}, options);
}

std::string text_of(const Turn& turn) {
  std::string out;
  for (const Paragraph& p : turn.contexts) out += p.text + "\n";
  return out;
}

/// The first group of every match, in text order.
Answers all_matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  Answers out;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) {
    out.push_back((*it)[1]);
  }
  return out;
}

/// The thing that a question is about: the text between two given parts of the question.
std::string asked(const std::string& question, const std::string& begin, const std::string& end) {
  const std::size_t from = question.find(begin) + begin.size();
  return question.substr(from, question.find(end, from) - from);
}

Answers codes_of(const std::string& text, const std::string& thing) {
  return all_matches(text, "The access code of the " + thing + " is (\\d+)\\.");
}

/// Answers a question from the text with an independent implementation.
Answers solve(std::string_view kind, const std::string& question, const std::string& text) {
  if (kind == "needle" || kind == "multi-key-needle") {
    return codes_of(text, asked(question, "code of the ", "?"));
  }
  if (kind == "multi-value-needle") {
    const std::string thing = asked(question, "codes of the ", "?");
    return all_matches(text, "One of the access codes of the " + thing + " is (\\d+)\\.");
  }
  if (kind == "multi-needle") {
    Answers out;
    for (const std::string& thing : split(asked(question, "codes of ", ", in this"), ", ")) {
      for (const std::string& code : codes_of(text, thing.substr(4))) out.push_back(code);
    }
    return out;
  }
  if (kind == "needle-reasoning") {
    const Answers things =
        all_matches(text, asked(question, "kept that ", " looks") + " looks after the ([^.]+)\\.");
    return things.size() != 1
               ? things
               : all_matches(text, "The " + things[0] + " is kept in the ([^.]+)\\.");
  }
  if (kind == "passkey" || kind == "number-retrieval") {
    return all_matches(
        text, "The " + asked(question, "What is the ", "?") + " is (\\d+)\\. Remember it: \\1\\.");
  }
  if (kind == "kv-retrieval") {
    return all_matches(text, "\"" + asked(question, "key \"", "\"") + "\": \"([^\"]+)\",");
  }
  Answers out = all_matches(text, "VAR (\\w+) = " + asked(question, "value ", ","));
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (const std::string& next : all_matches(text, "VAR (\\w+) = VAR " + out[i])) {
      out.push_back(next);
    }
  }
  return out;
}

void check(const NeedleTask& kind, const Dialogue& dialogue, int turns) {
  SCOPED_TRACE(dialogue.id);
  ASSERT_EQ(dialogue.turns.size(), static_cast<std::size_t>(turns));
  EXPECT_EQ(dialogue.metric, kind.metric);
  std::string so_far;
  std::map<std::string, std::string> paragraphs;
  std::map<std::string, std::size_t> turn_of;
  std::set<std::string> questions;
  for (std::size_t j = 0; j < dialogue.turns.size(); ++j) {
    const Turn& turn = dialogue.turns[j];
    so_far += text_of(turn);
    for (const Paragraph& p : turn.contexts) {
      EXPECT_TRUE(paragraphs.emplace(p.source, p.text).second) << p.source;
      turn_of[p.source] = j;
    }
    EXPECT_TRUE(questions.insert(turn.question).second);
    const Answers found = solve(kind.name, turn.question, so_far);
    EXPECT_EQ(std::multiset<std::string>(found.begin(), found.end()),
              std::multiset<std::string>(turn.references.begin(), turn.references.end()))
        << turn.question;
    // The relevant paragraphs suffice for the answer, and none of them can be removed.
    std::string relevant;
    std::set<std::size_t> places;
    for (const std::string& source : turn.relevance) {
      ASSERT_TRUE(paragraphs.contains(source)) << source;
      relevant += paragraphs[source] + "\n";
      places.insert(turn_of[source]);
    }
    EXPECT_LE(places.size(), j + 1);
    EXPECT_EQ(solve(kind.name, turn.question, relevant), found);
    for (const std::string& source : turn.relevance) {
      std::string rest = so_far;
      const std::size_t at = rest.find(paragraphs[source]);
      rest.erase(at, paragraphs[source].size());
      EXPECT_NE(solve(kind.name, turn.question, rest), found) << source << " is not needed";
    }
    for (const std::string& reference : turn.references) {
      EXPECT_EQ(turn.question.find(reference), std::string::npos);
      EXPECT_EQ(turn.instruction.find(reference), std::string::npos);
      EXPECT_NE(turn.gold.find(reference), std::string::npos);
    }
    if (!turn.classes.empty()) {
      EXPECT_NE(std::find(turn.classes.begin(), turn.classes.end(), turn.references[0]),
                turn.classes.end());
    }
  }
}

TEST(NeedleDialogues, TextAnswersEveryQuestionAtTheStatedPlace) {
  for (const NeedleTask& kind : needle_tasks()) {
    SCOPED_TRACE(kind.name);
    for (int turns : {1, 2, 3, 16}) {
      for (std::uint64_t seed : {0, 1}) {
        for (const Dialogue& d : make(kind, needle_options(turns, 500 * turns, 4, seed))) {
          check(kind, d, turns);
        }
      }
    }
    check(kind, make(kind, needle_options(1, 20000, 1))[0], 1);
  }
}

TEST(NeedleDialogues, FillsTheLengthAskedFor) {
  for (const NeedleTask& kind : needle_tasks()) {
    for (int length : {600, 5000}) {
      for (int turns : {1, 3}) {
        for (const Dialogue& d : make(kind, needle_options(turns, length, 3))) {
          std::size_t total = 0;
          for (const Turn& t : d.turns) {
            total += count_words_and_marks(t.instruction + "\n" + t.question + "\n" + text_of(t));
          }
          // One more sentence or pair per turn would exceed the length.  Needles may be long
          // themselves.
          EXPECT_GT(total, static_cast<std::size_t>(length - 40 * turns)) << d.id;
          EXPECT_LE(total, static_cast<std::size_t>(length == 600 ? 800 : length)) << d.id;
        }
      }
    }
  }
}

TEST(NeedleDialogues, NeedleIsAtTheRequestedDepth) {
  for (const NeedleTask& kind : needle_tasks()) {
    if (!kind.single_depth) continue;
    for (double depth : {0.0, 10.0, 33.3, 50.0, 90.0, 100.0}) {
      BuildOptions options = needle_options(1, 4000, 4);
      options.depth = depth;
      for (const Dialogue& d : make(kind, options)) {
        const std::string text = text_of(d.turns[0]);
        const std::size_t at =
            text.rfind(kind.in_uuid_pairs ? asked(d.turns[0].question, "key \"", "\"") : "The ",
                       text.find(d.turns[0].references[0]));
        const auto before = static_cast<double>(count_words_and_marks(text.substr(0, at)));
        const auto all = static_cast<double>(count_words_and_marks(text));
        EXPECT_NEAR(100 * before / all, depth, 1.0) << d.id;
        EXPECT_TRUE(depth > 0 || before <= 1) << d.id;
      }
    }
  }
}

TEST(NeedleDialogues, DepthChangesNothingElse) {
  const NeedleTask& kind = kind_named("needle");
  const auto sentences = [&](double depth) {
    BuildOptions options = needle_options(3, 2400, 3);
    options.depth = depth;
    std::string questions;
    std::multiset<std::string> out;
    for (const Dialogue& d : make(kind, options)) {
      for (const Turn& t : d.turns) {
        questions += t.question + t.references[0];
        for (const std::string& s : split(replace_all(text_of(t), "\n", " "), ". ")) out.insert(s);
      }
    }
    return std::pair(questions, out);
  };
  EXPECT_EQ(sentences(0), sentences(100));
  EXPECT_EQ(sentences(0), sentences(42));
}

TEST(NeedleDialogues, RelevanceVariesAsInThePaper) {
  std::map<std::pair<std::size_t, std::size_t>, int> sizes;  // (turn, number of relevant turns)
  for (const Dialogue& d : make(kind_named("multi-needle"), needle_options(3, 900, 600))) {
    for (std::size_t j = 0; j < 3; ++j) {
      std::set<std::string> turns;
      for (const std::string& source : d.turns[j].relevance) turns.insert(split(source, "#")[0]);
      ++sizes[{j, turns.size()}];
    }
  }
  EXPECT_EQ((sizes[{0, 1}]), 600);
  for (std::size_t size : {1, 2}) EXPECT_NEAR((sizes[{1, size}]), 300, 60);
  for (std::size_t size : {1, 2, 3}) EXPECT_NEAR((sizes[{2, size}]), 200, 60);
}

TEST(NeedleDialogues, DefaultDepthsAreSpread) {
  int thirds[3] = {};
  for (const Dialogue& d : make(kind_named("passkey"), needle_options(1, 2000, 300))) {
    const std::string text = text_of(d.turns[0]);
    ++thirds[3 * text.find(d.turns[0].references[0]) / text.size()];
  }
  for (int third : thirds) EXPECT_NEAR(third, 100, 35);
}

TEST(NeedleDialogues, TheSameSeedGivesTheSameBytesOnEveryMachine) {
  std::string all;
  for (const NeedleTask& kind : needle_tasks()) {
    all += test::lines_of(make(kind, needle_options(1, 1000, 2)));
    all += test::lines_of(make(kind, needle_options(3, 2000, 2)));
    EXPECT_NE(test::lines_of(make(kind, needle_options(1, 1000, 2, 4))),
              test::lines_of(make(kind, needle_options(1, 1000, 2))));
    const std::string few = test::lines_of(make(kind, needle_options(2, 900, 2)));
    EXPECT_TRUE(test::lines_of(make(kind, needle_options(2, 900, 5))).starts_with(few));
  }
  EXPECT_EQ(hash_text(all), "73690b053870f7d2c85af5a94ca1bc57");
}

TEST(NeedleDialogues, EssaysAreFillerInTheirOrder) {
  std::vector<std::string> essays;
  for (int i = 0; i < 50; ++i) essays.push_back(fmt::format("Sentence {} of the essay.", i));
  const NeedleTask& kind = kind_named("needle");
  for (const Dialogue& d :
       make_needle_dialogues(kind, "needle", essays, needle_options(1, 600, 3))) {
    check(kind, d, 1);
    const Answers numbers =
        all_matches(replace_all(text_of(d.turns[0]), "\n", " "), "Sentence (\\d+) of the essay\\.");
    ASSERT_GT(numbers.size(), 60u);
    for (std::size_t i = 1; i < numbers.size(); ++i) {
      EXPECT_EQ(std::stoi(numbers[i]), (std::stoi(numbers[i - 1]) + 1) % 50);
    }
  }
}

TEST(NeedleDialogues, RealEssays) {
  const std::filesystem::path essays = test::shared_longbench().parent_path() / "essays";
  if (!std::filesystem::exists(essays)) GTEST_SKIP() << "no essays at " << essays;
  const auto sentences = read_sentences(essays);
  EXPECT_GT(sentences.size(), 1000u);
  for (const char* name : {"needle", "mt-needle-reasoning", "mt-variable-tracking"}) {
    const auto dialogues = load_dialogues(name, essays, {.limit = 5, .length = 6000});
    const std::string_view kind = std::string_view(name).substr(name[0] == 'm' ? 3 : 0);
    for (const Dialogue& d : dialogues) check(kind_named(kind), d, name[0] == 'm' ? 3 : 1);
  }
}

TEST(NeedleDialogues, RejectsImpossibleOptions) {
  const NeedleTask& kind = kind_named("needle");
  const auto refusal = [&](const BuildOptions& o) {
    return test::message_of([&] { make(kind, o); });
  };
  EXPECT_EQ(refusal(needle_options(17, 9000)), "needle: found 17 turns, expected from 1 to 16");
  EXPECT_EQ(refusal(needle_options(-1, 9000)), "needle: found -1 turns, expected from 1 to 16");
  EXPECT_EQ(refusal(needle_options(3, 599)),
            "needle: found the length 599 for 3 turns, expected at least 600");
  BuildOptions deep = needle_options(1, 600);
  deep.depth = 101;
  EXPECT_EQ(refusal(deep), "needle: found the depth 101, expected a number from 0 to 100");
  deep.depth = std::nan("");
  EXPECT_EQ(refusal(deep), "needle: found the depth nan, expected a number from 0 to 100");
}

}  // namespace
}  // namespace turnbench
