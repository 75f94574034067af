// What follows a store while a run writes it: the table of the means so far, versions, snapshots.

#include "reports/live_table.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "common/text.h"
#include "reports/store_version.h"
#include "tests/reports/hand_made_store.h"

namespace turnbench::test {
namespace {

using Lines = std::vector<std::string>;

void add_scores(HandMadeStore& hand) {
  const auto add = [&](const char* dataset, const char* position, const char* method,
                       double score) {
    hand.add(HandMadeStore::key(dataset, position, method), "a", score, score);
  };
  add("tiny-fact", "begin", "full", 1);
  add("tiny-hop", "begin", "full", .5);
  add("tiny-fact", "end", "full", .25);
  add("tiny-fact", "end", "snapkv:budget=64", 0);
}

TEST(LiveTable, HasTheMeansOfTheCellsThatHaveScores) {
  HandMadeStore hand;
  EXPECT_EQ(live_table(hand.store(), "hand", 20, 80), Lines{}) << "no scores yet";
  add_scores(hand);
  EXPECT_EQ(live_table(hand.store(), "hand", 20, 80),
            (Lines{"means so far, x100   begin     end",  //
                   "full                  75.0    25.0",  //
                   "snapkv:budget=64         –     0.0",  //
                   "streamingllm             –       –"}));
}

TEST(LiveTable, FitsTheTerminal) {
  HandMadeStore hand;
  add_scores(hand);
  EXPECT_EQ(live_table(hand.store(), "hand", 3, 80),
            (Lines{"means so far, x100   begin     end",  //
                   "full                  75.0    25.0",  //
                   "and 2 more"}));
  const Lines narrow = live_table(hand.store(), "hand", 20, 20);
  EXPECT_EQ(narrow, (Lines{"means so fa…   begin", "full            75.0", "snapkv:budg…       –",
                           "streamingllm       –"}));
  EXPECT_EQ(live_table(hand.store(), "hand", 20, 10), Lines{});
  EXPECT_EQ(live_table(hand.store(), "hand", 1, 80), Lines{});
}

TEST(TerminalLine, IsCutAndEscaped) {
  EXPECT_EQ(terminal_line("abc", 3), "abc");
  EXPECT_EQ(terminal_line("abcd", 3), "ab…");
  EXPECT_EQ(terminal_line("漢字漢字", 5), "漢字…");
  EXPECT_EQ(terminal_line("a\033[31m\nb\u202e", 40), "a\\x1b[31m b\\u202e");
  EXPECT_EQ(terminal_line("abc", 0), "");
}

TEST(StoreVersion, ChangesWithTheStore) {
  HandMadeStore hand;
  const std::string path = hand.store().path();
  StoreVersion version(path);
  const std::string before = version.now();
  EXPECT_EQ(version.now(), before);
  add_scores(hand);
  const std::string after = version.now();
  EXPECT_NE(after, before);
  EXPECT_EQ(version.now(), after);
  // Another file of the same name.
  const std::string copy = path + ".copy";
  std::filesystem::copy_file(path, copy);
  std::filesystem::rename(copy, path);
  EXPECT_NE(version.now(), after);
}

TEST(StoreSnapshot, IsTheStateOfOneMoment) {
  HandMadeStore hand;
  add_scores(hand);
  const Store snapshot = Store::open_snapshot(hand.store().path());
  const Lines before = live_table(snapshot, "hand", 20, 80);
  hand.add(HandMadeStore::key("tiny-fact", "end", "streamingllm"), "b", 1, 1);
  EXPECT_EQ(live_table(snapshot, "hand", 20, 80), before);
  EXPECT_NE(live_table(Store::open_snapshot(hand.store().path()), "hand", 20, 80), before);
}

}  // namespace
}  // namespace turnbench::test
