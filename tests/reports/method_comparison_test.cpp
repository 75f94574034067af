// The comparison of two methods, against tables of the same differences and against computations of
// its own.

#include "reports/comparison/method_comparison.h"
#include "harness/store/method_filter.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "common/text.h"
#include "harness/store/method_filter.h"
#include "reports/render.h"
#include "tests/message_of.h"
#include "tests/reports/all_flips.h"
#include "tests/reports/hand_made_store.h"

namespace turnbench::test {
namespace {

const std::string kFirst = "snapkv:budget=64", kSecond = "full";

/// A store whose scores are random, and the scores.
class RandomScores {
 public:
  explicit RandomScores(const std::string& manifest = kManifest) : hand_(manifest) {
    std::mt19937 random(3);
    std::uniform_real_distribution<double> score(0, 1);
    for (const char* dataset : {"tiny-fact", "tiny-hop"}) {
      for (const char* position : {"begin", "end"}) {
        for (const std::string& method : {kFirst, kSecond}) {
          for (const char* dialogue : {"a", "b", "c", "d"}) {
            const double first = score(random), second = score(random);
            const std::string key = HandMadeStore::key(dataset, position, method);
            hand_.add(key, dialogue, first, second, 100, 0,
                      method == kFirst && dialogue == std::string("a") ? "other" : "answer");
            scores_[key + "/" + dialogue] = {first, second};
          }
        }
      }
    }
  }

  const Store& store() { return hand_.store(); }
  HandMadeStore& hand() { return hand_; }
  double difference(const std::string& dataset, const std::string& position,
                    const std::string& dialogue, int turn) const {
    const auto score = [&](const std::string& method) {
      return scores_.at(HandMadeStore::key(dataset, position, method) + "/" + dialogue)
          .at(static_cast<std::size_t>(turn));
    };
    return score(kFirst) - score(kSecond);
  }

 private:
  HandMadeStore hand_;
  std::map<std::string, std::vector<double>> scores_;
};

ComparisonRequest request(const std::string& first = kFirst, const std::string& second = kSecond) {
  ComparisonRequest out;
  out.experiment = "hand";
  out.first = first;
  out.second = second;
  return out;
}

const ComparisonPart& part_of(const MethodComparison& comparison, const std::string& dimension,
                              const std::string& value) {
  for (const ComparisonPart& part : comparison.parts) {
    if (part.dimension == dimension && part.value == value) return part;
  }
  throw std::runtime_error("no part " + dimension + " " + value);
}

void expect_entry(const ComparisonPart& part, const Pivot::Entry& entry) {
  EXPECT_NEAR(part.first.mean, entry.estimate.mean, 1e-9);
  EXPECT_NEAR(part.first.interval->low, entry.estimate.interval->low, 1e-9);
  ASSERT_TRUE(part.difference && entry.has_difference());
  const Difference& difference = *entry.differences.front();
  const Estimate &own = part.difference->estimate, &table = difference.estimate;
  EXPECT_NEAR(own.mean, table.mean, 1e-9);
  EXPECT_NEAR(own.interval->low, table.interval->low, 1e-9);
  EXPECT_NEAR(own.interval->high, table.interval->high, 1e-9);
  EXPECT_EQ(part.difference->against_zero.p, difference.against_zero.p);
  EXPECT_EQ(own.dialogues, table.dialogues);
}

TEST(MethodComparison, HasTheDifferencesOfTheTables) {
  RandomScores scores;
  const MethodComparison comparison = compare_methods(scores.store(), request());
  const Results results(scores.store(), "hand");
  const auto entry = [&](const std::vector<std::string>& rows,
                         const std::vector<std::string>& columns, std::size_t column) {
    const Pivot pivot =
        make_pivot(results, {.rows = rows, .columns = columns, .difference_to = {{kSecond}}});
    return *pivot.entries[1][column];  // of snapkv
  };
  expect_entry(comparison.parts.front(), entry({"method"}, {}, 0));
  expect_entry(part_of(comparison, "dataset", "tiny-fact"), entry({"method"}, {"dataset"}, 0));
  expect_entry(part_of(comparison, "dataset", "tiny-hop"), entry({"method"}, {"dataset"}, 1));
  expect_entry(part_of(comparison, "position", "begin"), entry({"method"}, {"position"}, 0));
  expect_entry(part_of(comparison, "position", "end"), entry({"method"}, {"position"}, 1));
  EXPECT_EQ(comparison.parts.size(), 7u) << "all, 2 datasets, 2 positions, 2 turns; one task";
}

TEST(MethodComparison, AdjustsForAllPartsTogether) {
  RandomScores scores;
  const MethodComparison comparison = compare_methods(scores.store(), request());
  std::vector<std::vector<double>> contributions;  // [part][dialogue of both datasets]
  for (const ComparisonPart& part : comparison.parts) {
    std::vector<double>& of_part = contributions.emplace_back();
    for (const char* dataset : {"tiny-fact", "tiny-hop"}) {
      for (const char* dialogue : {"a", "b", "c", "d"}) {
        double sum = 0;
        for (const char* position : {"begin", "end"}) {
          for (int turn = 0; turn < 2; ++turn) {
            const std::string own = part.dimension == "dataset"    ? dataset
                                    : part.dimension == "position" ? position
                                    : part.dimension == "turn"     ? std::to_string(turn + 1)
                                                                   : "";
            if (own == part.value) sum += scores.difference(dataset, position, dialogue, turn);
          }
        }
        of_part.push_back(sum);
      }
    }
  }
  const std::vector<double> expected = adjusted_by_all_flips(contributions);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(comparison.parts[i].difference->against_zero.adjusted, expected[i], 1e-12)
        << comparison.parts[i].dimension << " " << comparison.parts[i].value;
  }
}

TEST(MethodComparison, ShowsTheLargestDifferences) {
  RandomScores scores;
  ComparisonRequest of = request();
  of.examples = 2;
  const MethodComparison comparison = compare_methods(scores.store(), of);
  EXPECT_EQ(comparison.answers, 32u);
  EXPECT_EQ(comparison.equal_answers, 24u) << "those of dialogue a differ";
  std::multimap<double, std::string> sorted;  // difference -> dialogue
  for (const char* dataset : {"tiny-fact", "tiny-hop"}) {
    for (const char* dialogue : {"a", "b", "c", "d"}) {
      for (const char* position : {"begin", "end"}) {
        for (int turn = 0; turn < 2; ++turn) {
          sorted.emplace(100 * scores.difference(dataset, position, dialogue, turn),
                         std::string(dataset) + " " + dialogue);
        }
      }
    }
  }
  ASSERT_EQ(comparison.better.size(), 2u);
  ASSERT_EQ(comparison.worse.size(), 2u);
  const auto check = [](const ComparisonExample& example, const auto& expected) {
    EXPECT_NEAR(example.first - example.second, expected.first, 1e-9);
    EXPECT_EQ(example.turn.cell.dataset + " " + example.turn.dialogue, expected.second);
    ASSERT_EQ(example.turn.answers.size(), 2u);
    EXPECT_EQ(example.turn.answers[0].method, kFirst);
    EXPECT_EQ(example.turn.answers[1].method, kSecond);
    EXPECT_NEAR(*example.turn.answers[0].score, example.first, 1e-9);
    EXPECT_EQ(example.turn.question,
              fmt::format("Question {} of {}?", example.turn.turn + 1, example.turn.dialogue));
  };
  check(comparison.worse.front(), *sorted.begin());
  check(comparison.better.front(), *sorted.rbegin());
  // The second example is of another dialogue.
  auto next = sorted.rbegin();
  while (next->second == sorted.rbegin()->second) ++next;
  check(comparison.better[1], *next);
}

TEST(MethodComparison, ComparesOnlyTurnsThatBothHave) {
  RandomScores scores;
  for (const char* position : {"begin", "end"})
    scores.hand().add(HandMadeStore::key("tiny-hop", position, "streamingllm"), "b", .5, 1);
  const MethodComparison comparison =
      compare_methods(scores.store(), request("streamingllm", kSecond));
  EXPECT_EQ(comparison.parts.front().first.turns, 4);
  EXPECT_EQ(comparison.parts.front().second.turns, 4);
  EXPECT_NEAR(comparison.parts.front().first.mean, 75, 1e-9);
  ASSERT_FALSE(comparison.notes.empty());
  EXPECT_EQ(comparison.notes.front(), "2 cells are left out: the other method has no score there.");
}

TEST(MethodComparison, FindsMethodsByTheirNames) {
  RandomScores scores;
  EXPECT_EQ(compare_methods(scores.store(), request("snapkv", "full")).first, kFirst);
  EXPECT_EQ(compare_methods(scores.store(), request("snapkv:budget=64,window=32", "full")).first,
            kFirst);
  const auto message = [&](const std::string& first, const std::string& second) {
    return message_of([&] { compare_methods(scores.store(), request(first, second)); });
  };
  EXPECT_NE(message("snapkw", "full").find("METHOD_A: found \"snapkw\", expected"),
            std::string::npos)
      << message("snapkw", "full");
  EXPECT_NE(message("full", "quest").find("METHOD_B: found \"quest\", expected one of: full, "),
            std::string::npos)
      << message("full", "quest");
  EXPECT_NE(message("full", "full").find("METHOD_B: found \"full\", which is METHOD_A too"),
            std::string::npos);
  EXPECT_NE(message("full", "streamingllm").find("found no turn with scores of both"),
            std::string::npos);
  HandMadeStore two(kManifest, kPublished, {"full", "snapkv:budget=64", "snapkv:budget=128"});
  EXPECT_NE(message_of([&] { compare_methods(two.store(), request("snapkv", "full")); })
                .find("METHOD_A: found \"snapkv\", which 2 methods match, expected one of: "
                      "snapkv:budget=128, snapkv:budget=64"),
            std::string::npos);
}

TEST(MethodComparison, TextAndJsonHaveTheNumbers) {
  RandomScores scores;
  const MethodComparison comparison = compare_methods(scores.store(), request());
  const Json json = parse_json(comparison_json(comparison), "json");
  EXPECT_EQ(json["a"], kFirst);
  EXPECT_EQ(json["parts"].size(), comparison.parts.size());
  EXPECT_DOUBLE_EQ(json["parts"][0]["difference"]["mean"].get<double>(),
                   comparison.parts[0].difference->estimate.mean);
  EXPECT_EQ(json["equal_answers"], 24);
  EXPECT_EQ(json["a_better"].size(), 3u);
  EXPECT_EQ(json["a_better"][0]["answers"].size(), 2u);
  const std::string text = comparison_markdown(comparison);
  EXPECT_TRUE(text.starts_with("# snapkv:budget=64 and full: hand\n")) << text;
  EXPECT_NE(text.find("| position end | "), std::string::npos) << text;
  EXPECT_NE(text.find("Equal answers: 24 of 32 turns (75.0%)."), std::string::npos) << text;
  EXPECT_NE(text.find("## snapkv:budget=64 better than full"), std::string::npos) << text;
}

TEST(MethodComparison, CountsFailedTurns) {
  HandMadeStore hand;
  for (const Cell& cell : hand.store().cells("hand")) {
    for (const char* id : {"a", "b", "c"}) hand.add(cell.key, id, 1, .5);
    if (cell.method == "full" && cell.position == "end") hand.add_failure(cell.key, "d");
  }
  const MethodComparison comparison =
      compare_methods(hand.store(), {.experiment = "hand", .first = "snapkv", .second = "full"});
  EXPECT_NE(std::find(comparison.notes.begin(), comparison.notes.end(),
                      "Failed turns, which are not compared: full 4."),
            comparison.notes.end());
}

// Tables shorten labels: the message names those of the same method.
TEST(MethodComparison, NamesTheLabelsOfAMethod) {
  EXPECT_EQ(
      nearest_methods("adakv:budget=512", {"adakv:budget=512,scorer=h2o", "snapkv:budget=512"}),
      "\"adakv:budget=512,scorer=h2o\"");
  EXPECT_EQ(nearest_methods("snapkv", {"snapkv:budget=1", "snapkv:budget=2", "full"}),
            "one of: snapkv:budget=1, snapkv:budget=2");
  EXPECT_EQ(nearest_methods("snapvk:budget=512", {"snapkv:budget=512", "full"}),
            "\"snapkv:budget=512\"");
}

}  // namespace
}  // namespace turnbench::test
