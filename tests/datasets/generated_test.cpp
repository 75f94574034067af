// Properties that every generated dataset must have under any options.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "common/text.h"
#include "datasets/catalog.h"
#include "datasets/dialogue_io.h"
#include "datasets/filler.h"
#include "tests/datasets/dialogue_text.h"
#include "tests/message_of.h"
#include "tests/parameter_name.h"

namespace turnbench {
namespace {

constexpr int kDefaultLengths[] = {1900, 4000};  // of tiny-* and of all others
constexpr std::size_t kDefaultNumber = 100;

bool is_tiny(const Dataset& dataset) {
  return dataset.name.starts_with("tiny-");
}

std::vector<std::string> generated() {
  std::vector<std::string> out;
  for (const Dataset& dataset : all_datasets()) {
    if (dataset.has_length && !dataset.needs_source) out.push_back(dataset.name);
  }
  return out;
}

std::string described(const BuildOptions& o) {
  return fmt::format("turns {}, seed {}, limit {}, length {}", o.turns, o.seed, o.limit, o.length);
}

/// Words and punctuation marks of a dialogue, without answers.
std::int64_t size_of(const Dialogue& dialogue) {
  std::size_t out = 0;
  for (const Turn& turn : dialogue.turns) {
    out += count_words_and_marks(turn.instruction) + count_words_and_marks(turn.question);
    for (const Paragraph& p : turn.contexts) out += count_words_and_marks(p.text);
  }
  return static_cast<std::int64_t>(out);
}

/// The paragraphs from these sources, up to and including turn `last`.
std::string text_of(const Dialogue& dialogue, std::size_t last, const std::set<std::string>& from) {
  std::string out;
  for (std::size_t t = 0; t <= last; ++t) {
    for (const Paragraph& p : dialogue.turns[t].contexts) {
      if (from.contains(p.source)) out += p.text + "\n";
    }
  }
  return out;
}

/// Expects that the relevant paragraphs contain the answer: as a whole, or word by word for a list.
void expect_findable(const Dialogue& dialogue, std::size_t t) {
  const Turn& turn = dialogue.turns[t];
  ASSERT_FALSE(turn.relevance.empty());
  ASSERT_FALSE(turn.references.empty());
  std::set<std::string> known;
  for (std::size_t i = 0; i <= t; ++i) {
    for (const Paragraph& p : dialogue.turns[i].contexts) known.insert(p.source);
  }
  const std::set<std::string> relevant(turn.relevance.begin(), turn.relevance.end());
  for (const std::string& source : relevant) EXPECT_TRUE(known.contains(source)) << source;
  const std::string text = text_of(dialogue, t, relevant);
  for (const std::string& reference : turn.references) {
    EXPECT_FALSE(reference.empty());
    const bool listed = dialogue.dataset == "tiny-list";
    for (const std::string& part : listed ? split(reference, " ") : std::vector{reference})
      EXPECT_NE(text.find(part), std::string::npos) << part;
  }
}

void expect_whole(const Dialogue& dialogue) {
  std::set<std::string> asked;
  for (std::size_t t = 0; t < dialogue.turns.size(); ++t) {
    SCOPED_TRACE(fmt::format("{}, turn {}", dialogue.id, t + 1));
    EXPECT_TRUE(asked.insert(dialogue.turns[t].question).second) << dialogue.turns[t].question;
    expect_findable(dialogue, t);
  }
  EXPECT_EQ(to_json_line(parse_dialogue(to_json_line(dialogue), "line")), to_json_line(dialogue));
  for (Position position : {Position::kBegin, Position::kMiddle, Position::kEnd}) {
    const Dialogue moved = with_questions_at(dialogue, position);
    EXPECT_EQ(size_of(moved), size_of(dialogue));
    for (const Turn& turn : moved.turns) {
      const std::size_t n = turn.contexts.size(), slot = question_index(turn);
      EXPECT_LE(slot, n);
      EXPECT_EQ(slot == 0,
                position == Position::kBegin || n == 0 || (position == Position::kMiddle && n < 2));
      EXPECT_EQ(slot == n, position == Position::kEnd || n == 0);
    }
  }
}

/// Expects that the dialogues match the options in number, turns and length, and that each is valid
/// and has its own id.
void expect_as_asked(const Dataset& dataset, const BuildOptions& options,
                     const std::vector<Dialogue>& dialogues) {
  ASSERT_EQ(dialogues.size(), options.limit > 0 ? options.limit : kDefaultNumber);
  std::set<std::string> ids;
  for (std::size_t i = 0; i < dialogues.size(); ++i) {
    const Dialogue& d = dialogues[i];
    EXPECT_TRUE(ids.insert(d.id).second) << "twice: " << d.id;
    EXPECT_EQ(d.dataset, dataset.name);
    const std::size_t own = is_tiny(dataset) ? 2 + i % 2 : static_cast<std::size_t>(dataset.turns);
    const std::size_t turns = options.turns > 0 ? static_cast<std::size_t>(options.turns) : own;
    ASSERT_EQ(d.turns.size(), turns);
    const std::int64_t length =
        options.length > 0 ? options.length : kDefaultLengths[is_tiny(dataset) ? 0 : 1];
    const auto n = static_cast<std::int64_t>(turns);
    // The total may differ by about a sentence per turn.  Short turns may need to hold more needles
    // than their share, headings of lists are not counted, and lists omit rare words.
    const std::int64_t more = is_tiny(dataset) ? 12 * n : (40 + 12 * n) * n;
    EXPECT_LE(size_of(d), length + more);
    EXPECT_GE(size_of(d), length - length / 5 - 40 * n);
    if (i < 20) expect_whole(d);
  }
}

/// The number at the end of an error message.
int bound_in(const std::string& refusal) {
  return std::stoi(refusal.substr(refusal.rfind(' ') + 1));
}

/// Generates a dataset with `options` and checks it.  If the options are refused, expects that the
/// message gives the minimum length, and that this length works.
void check(const Dataset& dataset, BuildOptions options) {
  SCOPED_TRACE(dataset.name + ": " + described(options));
  std::vector<Dialogue> dialogues;
  const std::string refusal =
      test::message_of([&] { dialogues = load_dialogues(dataset.name, "", options); });
  if (refusal == "no error") {
    expect_as_asked(dataset, options, dialogues);
    EXPECT_EQ(test::lines_of(load_dialogues(dataset.name, "", options)), test::lines_of(dialogues));
    BuildOptions fewer = options;
    fewer.limit = 1 + dialogues.size() / 3;
    dialogues.resize(fewer.limit);
    EXPECT_EQ(test::lines_of(load_dialogues(dataset.name, "", fewer)), test::lines_of(dialogues));
    return;
  }
  ASSERT_TRUE(refusal.starts_with(
      fmt::format("{}: found the length {} for ", dataset.name, options.length)))
      << refusal;
  ASSERT_NE(refusal.find(" turns, expected at least "), std::string::npos) << refusal;
  const int least = bound_in(refusal);
  EXPECT_GT(least, options.length);
  options.length = least;
  expect_as_asked(dataset, options, load_dialogues(dataset.name, "", options));
  options.length = least - 1;
  EXPECT_NE(test::message_of([&] { load_dialogues(dataset.name, "", options); }), "no error");
}

class Generated : public testing::TestWithParam<std::string> {
 protected:
  const Dataset& dataset = find_dataset(GetParam(), "test");
};

TEST_P(Generated, ShortDialoguesAreBuiltOrTheMinimumLengthIsReported) {
  for (int length : {1, 30, 75, 100, 223, 300, 600, 701}) {
    for (std::uint64_t seed : {0ull, 7ull})
      check(dataset, {.seed = seed, .limit = 6, .length = length});
  }
  if (dataset.turns == 1) return;
  for (int turns : {1, 2, 3, 5, 16}) {
    for (int length : {75, 160, 333, 1500, 3500})
      check(dataset, {.turns = turns, .seed = 3, .limit = 8, .length = length});
  }
}

TEST_P(Generated, ManyLongAndDefaultDialoguesAreBuilt) {
  const int turns = dataset.turns == 1 ? 1 : 16;
  const BuildOptions cases[] = {
      {},
      {.seed = INT64_MAX, .limit = 3},
      {.limit = 150, .length = is_tiny(dataset) ? 600 : 2100},
      {.turns = turns, .seed = 5, .limit = 4, .length = 20'000},
      {.turns = turns, .seed = 6, .limit = 1, .length = 150'000},
  };
  for (const BuildOptions& options : cases) {
    SCOPED_TRACE(dataset.name + ": " + described(options));
    expect_as_asked(dataset, options, load_dialogues(dataset.name, "", options));
  }
}

TEST_P(Generated, RejectsMoreThanFits) {
  const std::string& name = dataset.name;
  EXPECT_EQ(test::message_of(
                [&] { load_dialogues(name, "", {.limit = 1'000'000'000, .length = 10'000}); }),
            fmt::format("{}: found 1000000000 dialogues of the length 10000, expected at most "
                        "50000 of them",
                        name));
  const int most = name.starts_with("tiny-") ? 64 : dataset.turns == 1 ? 1 : 16;
  const std::string refusal = test::message_of(
      [&] { load_dialogues(name, "", {.turns = most + 1, .limit = 1, .length = 90'000}); });
  EXPECT_TRUE(refusal.starts_with(fmt::format("{}: found {} turns, expected", name, most + 1)))
      << refusal;
  EXPECT_EQ(load_dialogues(name, "", {.turns = most, .limit = 1, .length = 90'000})[0].turns.size(),
            static_cast<std::size_t>(most));
}

INSTANTIATE_TEST_SUITE_P(Datasets, Generated, testing::ValuesIn(generated()), test::parameter_name);

}  // namespace
}  // namespace turnbench
