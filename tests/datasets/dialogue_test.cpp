#include "datasets/dialogue.h"

#include <gtest/gtest.h>

#include "longbench_samples.h"

namespace turnbench {
namespace {

Turn turn_with(const std::vector<int>& sizes, Position position) {
  Turn turn;
  for (int size : sizes)
    turn.contexts.push_back({"s", std::string(static_cast<std::size_t>(size), 'x')});
  turn.position = position;
  return turn;
}

std::size_t slot(const std::vector<int>& sizes, Position position) {
  return question_index(turn_with(sizes, position));
}

TEST(Dialogue, SlotAtTheEnds) {
  EXPECT_EQ(slot({5, 5, 5}, Position::kBegin), 0u);
  EXPECT_EQ(slot({5, 5, 5}, Position::kEnd), 3u);
  for (Position position : {Position::kBegin, Position::kMiddle, Position::kEnd}) {
    EXPECT_EQ(slot({}, position), 0u);
  }
}

TEST(Dialogue, SlotInTheMiddleIsNearestToHalfOfTheText) {
  EXPECT_EQ(slot({7}, Position::kMiddle), 0u);
  EXPECT_EQ(slot({1, 1, 1, 1}, Position::kMiddle), 2u);
  EXPECT_EQ(slot({9, 1, 1, 1}, Position::kMiddle), 1u);
  EXPECT_EQ(slot({1, 1, 1, 9}, Position::kMiddle), 3u);
  EXPECT_EQ(slot({1, 2, 1}, Position::kMiddle), 1u) << "a tie goes to the earlier boundary";
  EXPECT_EQ(slot({0, 0, 0}, Position::kMiddle), 1u);
}

TEST(Dialogue, NamesOfPositions) {
  for (Position position : {Position::kBegin, Position::kMiddle, Position::kEnd}) {
    EXPECT_EQ(parse_position(name_of(position), "x"), position);
  }
  EXPECT_EQ(test::message_of([] { parse_position("centre", "a.json: /position"); }),
            "a.json: /position: found the position \"centre\", expected begin, middle or end");
}

TEST(Dialogue, AtPositionMovesEveryQuestionAndNothingElse) {
  Dialogue dialogue;
  dialogue.id = "d";
  dialogue.turns = {turn_with({1, 2}, Position::kEnd), turn_with({3}, Position::kBegin)};
  const Dialogue moved = with_questions_at(dialogue, Position::kMiddle);
  EXPECT_EQ(moved.id, "d");
  ASSERT_EQ(moved.turns.size(), 2u);
  for (const Turn& turn : moved.turns) EXPECT_EQ(turn.position, Position::kMiddle);
  EXPECT_EQ(moved.turns[0].contexts[1].text, "xx");
}

}  // namespace
}  // namespace turnbench
