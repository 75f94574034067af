// Leaderboards of stores that are made by hand.

#include "reports/leaderboard/leaderboard.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/text.h"
#include "reports/render.h"
#include "tests/message_of.h"
#include "tests/reports/hand_made_store.h"

namespace turnbench::test {
namespace {

const std::vector<std::string> kMethods = {"full", "snapkv:budget=64", "streamingllm"};
const std::vector<std::string> kDialogues = {"a", "b", "c", "d"};

std::string cell_of(const std::string& dataset, const std::string& position,
                    const std::string& method) {
  return HandMadeStore::key(dataset, position, method);
}

/// Adds a method's results everywhere: the first turn scores `begin` or `end`, by position.
void add_everywhere(HandMadeStore& hand, const std::string& method, double begin, double end,
                    double kept, const std::vector<std::string>& dialogues = kDialogues) {
  for (const char* dataset : {"tiny-fact", "tiny-hop"}) {
    for (const char* position : {"begin", "end"}) {
      for (const std::string& dialogue : dialogues) {
        const double score = std::string_view(position) == "begin" ? begin : end;
        hand.add(cell_of(dataset, position, method), dialogue, score, score, kept);
      }
    }
  }
}

Leaderboard only_board(const std::vector<const Store*>& stores,
                       const LeaderboardRequest& request = {}) {
  std::vector<Leaderboard> boards = leaderboards(stores, request);
  EXPECT_EQ(boards.size(), 1u);
  return boards.front();
}

std::string all_notes(const Leaderboard& board) {
  return join(board.notes, "\n");
}

const LeaderboardRow& row_of(const Leaderboard& board, const std::string& method) {
  for (const LeaderboardRow& row : board.rows) {
    if (row.method == method) return row;
  }
  throw std::runtime_error("no row " + method);
}

TEST(Leaderboard, SortsMeansAndComparesPositions) {
  HandMadeStore hand;
  add_everywhere(hand, "full", .9, 1, 500);
  add_everywhere(hand, "snapkv:budget=64", .2, .8, 64);
  add_everywhere(hand, "streamingllm", .3, .4, 1024);
  const Leaderboard board = only_board({&hand.store()});
  ASSERT_EQ(board.rows.size(), 3u);
  EXPECT_EQ(board.rows[0].method, "full");
  EXPECT_EQ(board.rows[1].method, "snapkv:budget=64");
  EXPECT_EQ(board.rows[2].method, "streamingllm");
  EXPECT_NEAR(board.rows[0].quality.mean, 95, 1e-9);
  EXPECT_NEAR(board.rows[1].quality.mean, 50, 1e-9);
  EXPECT_NEAR(board.rows[2].quality.mean, 35, 1e-9);
  EXPECT_EQ(board.rows[0].quality.dialogues, 8);
  EXPECT_EQ(board.rows[0].quality.turns, 32);
  ASSERT_TRUE(board.rows[1].begin_minus_end.has_value());
  EXPECT_NEAR(board.rows[1].begin_minus_end->estimate.mean, -60, 1e-9);
  EXPECT_TRUE(board.rows[1].begin_minus_end->estimate.interval.has_value());
  EXPECT_FALSE(board.rows[1].middle_minus_end.has_value());
  EXPECT_EQ(board.rows[1].budget, "64");
  EXPECT_EQ(board.rows[0].budget, "");
  EXPECT_NEAR(board.rows[1].costs.at("kv_tokens").mean, 64, 1e-9);
  EXPECT_FALSE(board.rows[1].costs.contains("ttft"));
  // Eight dialogues that all differ: p is at least 2/256 before the adjustment.
  EXPECT_EQ(board.rows[0].rank, (RankRange{1, 1}));
  EXPECT_EQ(all_notes(board), "");
}

TEST(Leaderboard, MeansAndIntervalsAreThoseOfTheTables) {
  HandMadeStore hand;
  double score = 0;
  for (const std::string& method : kMethods) {
    for (const char* dataset : {"tiny-fact", "tiny-hop"}) {
      for (const char* position : {"begin", "end"}) {
        for (const std::string& dialogue : kDialogues) {
          score = score > .9 ? score - .83 : score + .17;
          hand.add(cell_of(dataset, position, method), dialogue, score, 1 - score);
        }
      }
    }
  }
  const Results results(hand.store(), "hand");
  const Pivot pivot = make_pivot(results, {.rows = {"method"}});
  const Leaderboard board = only_board({&hand.store()});
  for (std::size_t r = 0; r < pivot.rows.size(); ++r) {
    const Estimate &own = row_of(board, pivot.rows[r].front()).quality,
                   &table = pivot.entries[r].front()->estimate;
    EXPECT_NEAR(own.mean, table.mean, 1e-9);
    EXPECT_NEAR(own.interval->low, table.interval->low, 1e-9);
    EXPECT_NEAR(own.interval->high, table.interval->high, 1e-9);
  }
}

TEST(Leaderboard, RanksOnEqualTermsOnly) {
  HandMadeStore hand;
  add_everywhere(hand, "full", 1, 1, 500);
  add_everywhere(hand, "snapkv:budget=64", .5, .5, 64, {"a", "b", "c"});
  hand.add_failure(cell_of("tiny-hop", "end", "snapkv:budget=64"), "d");
  hand.add(cell_of("tiny-fact", "end", "streamingllm"), "a", 1, 1);
  const Leaderboard board = only_board({&hand.store()});
  ASSERT_EQ(board.rows.size(), 2u);
  EXPECT_EQ(row_of(board, "full").quality.dialogues, 6);
  EXPECT_EQ(row_of(board, "full").quality.turns, 24);
  EXPECT_EQ(
      all_notes(board),
      "8 turns are left out, because not all ranked methods have a score for them.\n"
      "Methods that are not ranked: streamingllm (none in tiny-fact (begin), tiny-hop (begin, "
      "end)).\nFailed turns: snapkv:budget=64 2.\n"
      "Partial: tiny-fact 3 of 4, tiny-hop 3 of 4 dialogues with a result.");
}

TEST(Leaderboard, NamesConditionsWithoutScores) {
  HandMadeStore hand;
  for (const std::string& method : kMethods) {
    for (const std::string& dialogue : kDialogues) {
      hand.add(cell_of("tiny-fact", "begin", method), dialogue, 1, 0);
      hand.add_failure(cell_of("tiny-hop", "begin", method), dialogue);
    }
  }
  const std::string notes = all_notes(only_board({&hand.store()}));
  EXPECT_NE(notes.find("Left out, because no method has scores there: tiny-fact (end), "
                       "tiny-hop (begin, end)."),
            std::string::npos)
      << notes;
}

TEST(Leaderboard, LeavesOutAMethodWithFewTurns) {
  HandMadeStore hand;
  add_everywhere(hand, "full", 1, 1, 500);
  add_everywhere(hand, "snapkv:budget=64", .5, .5, 64);
  add_everywhere(hand, "streamingllm", 1, 1, 64, {"b"});
  const Leaderboard board = only_board({&hand.store()});
  ASSERT_EQ(board.rows.size(), 2u) << "2 x 32 scores instead of 3 x 8";
  EXPECT_EQ(board.rows.front().quality.turns, 32);
  EXPECT_EQ(all_notes(board), "Methods that are not ranked: streamingllm (8 of 32 turns).");
  // Of two methods, both are ranked.
  HandMadeStore two;
  add_everywhere(two, "full", 1, 1, 500);
  add_everywhere(two, "streamingllm", 1, 1, 64, {"b"});
  EXPECT_EQ(only_board({&two.store()}).rows.front().quality.turns, 8);
  // Methods without a common turn.
  HandMadeStore none;
  add_everywhere(none, "full", 1, 1, 500, {"a"});
  add_everywhere(none, "streamingllm", 1, 1, 64, {"b"});
  const Leaderboard empty = only_board({&none.store()});
  EXPECT_TRUE(empty.rows.empty());
  EXPECT_EQ(all_notes(empty), "No method is ranked: no turn has scores of two methods.");
  EXPECT_NE(leaderboard_markdown({empty}).find("**tiny**\n\nNo method is ranked"),
            std::string::npos);
}

TEST(Leaderboard, MarksTheParetoFrontOfTokensRead) {
  HandMadeStore hand;
  const auto add = [&](const std::string& method, double score, double read) {
    for (const char* dataset : {"tiny-fact", "tiny-hop"}) {
      for (const std::string& dialogue : kDialogues) {
        Record r;
        r.cell = cell_of(dataset, "end", method);
        r.dialogue = dialogue;
        r.answer = "x";
        r.counters = {{"attended_tokens", read}};
        hand.store().add_records({r}, {{r.cell, dialogue, 0, "qa_f1", "none", score}});
      }
    }
  };
  add("full", 1, 500);
  add("snapkv:budget=64", .5, 64);
  add("streamingllm", .4, 100);
  const Leaderboard board = only_board({&hand.store()});
  using Names = std::vector<std::string>;
  EXPECT_EQ(row_of(board, "full").fronts, Names{"attended_tokens"});
  EXPECT_EQ(row_of(board, "snapkv:budget=64").fronts, Names{"attended_tokens"});
  EXPECT_EQ(row_of(board, "streamingllm").fronts, Names{});
  const std::string text = leaderboard_markdown({board});
  EXPECT_NE(text.find("| rank | method | score | budget | read | Pareto |"), std::string::npos)
      << text;
  EXPECT_NE(text.find("| 100.0 [57.2, 100.0] |  | 500 | read |"), std::string::npos) << text;
}

TEST(Leaderboard, JoinsStoresWithEqualResults) {
  HandMadeStore whole, first, second;
  add_everywhere(whole, "full", .9, 1, 500);
  add_everywhere(whole, "snapkv:budget=64", .2, .8, 64);
  add_everywhere(first, "full", .9, 1, 500);
  add_everywhere(second, "full", .9, 1, 500, {"a", "b"});  // again
  add_everywhere(second, "snapkv:budget=64", .2, .8, 64);
  const auto json = [](const std::vector<const Store*>& stores) {
    return leaderboard_json(leaderboards(stores, {}));
  };
  const std::string want = json({&whole.store()});
  EXPECT_EQ(json({&first.store(), &second.store()}), want);
  EXPECT_EQ(json({&second.store(), &first.store()}), want);
}

TEST(Leaderboard, ReplacesFailuresByTheResultsOfAnotherStore) {
  HandMadeStore whole, failed;
  add_everywhere(whole, "full", .9, 1, 500);
  add_everywhere(failed, "full", .9, 1, 500, {"a", "b", "c"});
  for (const char* dataset : {"tiny-fact", "tiny-hop"}) {
    for (const char* position : {"begin", "end"})
      failed.add_failure(cell_of(dataset, position, "full"), "d");
  }
  for (const auto& stores : {std::vector<const Store*>{&whole.store(), &failed.store()},
                             {&failed.store(), &whole.store()}}) {
    const Leaderboard board = only_board(stores);
    EXPECT_EQ(board.rows.front().quality.turns, 32);
    EXPECT_EQ(all_notes(board),
              "Methods that are not ranked: snapkv:budget=64 (no results); streamingllm (no "
              "results).");
  }
}

TEST(Leaderboard, RefusesStoresThatDisagree) {
  HandMadeStore first, answers, scores, counters;
  const std::string cell = cell_of("tiny-fact", "end", "full");
  first.add(cell, "b", 1, 1);
  answers.add(cell, "b", 1, 1, 100, 0, "another answer");
  scores.add(cell, "b", 1, .5);
  counters.add(cell, "b", 1, 1, 200);
  const auto message = [&](HandMadeStore& other) {
    return message_of([&] { leaderboards({&first.store(), &other.store()}, {}); });
  };
  const std::string place = " of tiny, tiny-fact, end, full, dialogue b, turn ";
  EXPECT_NE(message(answers).find("found different answers" + place + "1"), std::string::npos)
      << message(answers);
  EXPECT_NE(message(scores).find("found different scores" + place + "2"), std::string::npos)
      << message(scores);
  EXPECT_NE(message(counters).find("found different counters" + place + "1"), std::string::npos)
      << message(counters);
  EXPECT_NE(message(answers).find(first.store().path() + " and " + answers.store().path()),
            std::string::npos);
}

TEST(Leaderboard, RefusesUnknownNames) {
  HandMadeStore hand;
  EXPECT_NE(message_of([&] { leaderboards({&hand.store()}, {}); }).find("found no scores"),
            std::string::npos);
  add_everywhere(hand, "full", 1, 1, 100);
  const auto message = [&](const LeaderboardRequest& request) {
    return message_of([&] { leaderboards({&hand.store()}, request); });
  };
  EXPECT_NE(message({.experiments = {"hands"}}).find("--experiment: found \"hands\""),
            std::string::npos);
  EXPECT_NE(message({.model = "tin"}).find("--model: found \"tin\", expected \"tiny\""),
            std::string::npos)
      << message({.model = "tin"});
  EXPECT_NE(message({.choice = {"rouge", ""}}).find("--metric: found \"rouge\""),
            std::string::npos);
}

TEST(Leaderboard, CsvAndJsonHaveTheNumbersOfTheRows) {
  HandMadeStore hand;
  add_everywhere(hand, "full", .9, 1, 500);
  add_everywhere(hand, "snapkv:budget=64", .2, .8, 64);
  const Leaderboard board = only_board({&hand.store()});
  const Json json = parse_json(leaderboard_json({board}), "json")["leaderboards"][0];
  EXPECT_EQ(json["model"], "tiny");
  EXPECT_EQ(json["datasets"][0]["positions"], Json::array({"begin", "end"}));
  const Json& row = json["methods"][1];
  EXPECT_EQ(row["method"], "snapkv:budget=64");
  EXPECT_EQ(row["rank"]["best"], board.rows[1].rank.best);
  EXPECT_DOUBLE_EQ(row["mean"].get<double>(), board.rows[1].quality.mean);
  EXPECT_DOUBLE_EQ(row["begin_minus_end"]["mean"].get<double>(),
                   board.rows[1].begin_minus_end->estimate.mean);
  EXPECT_DOUBLE_EQ(row["costs"]["kv_tokens"]["mean"].get<double>(), 64);
  const std::vector<std::string> lines = split(leaderboard_csv({board}), "\n");
  ASSERT_EQ(lines.size(), 4u);  // the last is empty
  const std::vector<std::string> names = split(lines[0], ","), fields = split(lines[2], ",");
  // The settings of snapkv have commas, so its field is quoted.
  EXPECT_EQ(names[3], "method");
  EXPECT_EQ(fields[3], "snapkv:budget=64");
  EXPECT_TRUE(lines[2].starts_with("tiny,"));
}

}  // namespace
}  // namespace turnbench::test
