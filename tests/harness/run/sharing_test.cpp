// The cells that share computation in a turn: the rule, as used by the runner and by memory
// planning.

#include "harness/run/sharing.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "harness/experiment/planned_turn.h"
#include "harness/run/unit_runner.h"
#include "tests/harness/run/small_world.h"
#include "tests/methods/settings.h"

namespace turnbench::test {
namespace {

constexpr std::size_t kTurns = 3;

Dialogue short_dialogue() {
  return make_tiny_dialogues(TinyTask::kFact,
                             {.turns = kTurns, .length = 100, .count = 1, .seed = 3})[0];
}

/// Every method, under three histories and both kinds of answers.
Cells all_methods_as_cells() {
  Cells out;
  for (const MethodInfo& info : all_methods()) out.add(spec_of(info, small_values(info)));
  return out;
}

std::vector<UnitCell> with_answers(Answers answers, const std::vector<UnitCell>& cells) {
  std::vector<UnitCell> out = cells;
  std::erase_if(out, [&](const UnitCell& cell) { return cell.answers != answers; });
  return out;
}

/// The sharing of the unit's last turn when it runs.
TurnSharing run_sharing(const SmallWorld& world, const Unit& unit, const Decoding& decoding) {
  const auto backend = make_cpu_backend(1);
  Engine engine(world.model, *backend, {});
  UnitRunner runner(engine, world.renderer, decoding);
  runner.add(unit);
  for (;;) {
    const std::list<ActiveUnit> ended = runner.step();
    if (!ended.empty()) return ended.front().sharing;
  }
}

/// The first `turns` turns of a dialogue.
Dialogue beginning(Dialogue dialogue, std::size_t turns) {
  dialogue.turns.resize(turns);
  return dialogue;
}

TEST(TurnSharing, FollowsHistories) {
  const Method full = Method::parse("full"), blocks = Method::parse("snapkv:compress_block=64");
  const auto start = [&](History history, std::size_t turn, bool isolated = false) {
    return start_of({"", &full, history}, turn, 3, isolated);
  };
  EXPECT_EQ(start_of({"", &blocks, History::kReprefill}, 1, 3, false), TurnStart::kRestart);
  EXPECT_EQ(start_of({"", &blocks, History::kRecompress}, 1, 3, false), TurnStart::kContinue);
  for (const std::size_t turn : {1u, 2u}) {
    EXPECT_EQ(start(History::kReprefill, turn), TurnStart::kFork);
    EXPECT_EQ(start(History::kReprefill, turn, true), TurnStart::kRestart);
    for (const bool isolated : {false, true}) {
      EXPECT_EQ(start(History::kCompressOnce, turn, isolated), TurnStart::kContinue);
      EXPECT_EQ(start(History::kRecompress, turn, isolated), TurnStart::kContinue);
      EXPECT_EQ(start(History::kDense, turn, isolated),
                turn == 1 ? TurnStart::kSkip : TurnStart::kDenseHistory);
    }
  }
  for (const History history :
       {History::kReprefill, History::kCompressOnce, History::kRecompress}) {
    EXPECT_EQ(start(history, 0), TurnStart::kFork);
    EXPECT_EQ(start(history, 0, true), TurnStart::kRestart);
  }
  EXPECT_EQ(start(History::kDense, 0), TurnStart::kSkip);
  EXPECT_EQ(start_of({"", &full, History::kDense}, 0, 1, false), TurnStart::kFork);
}

TEST(TurnSharing, GroupsEqualPrefillsOfEqualPrompts) {
  const Method full = Method::parse("full"), snapkv = Method::parse("snapkv:budget=24,window=4"),
               sparse = Method::parse("minference"),
               both = Method::parse("minference+h2o:budget=24"),
               shifted = Method::parse("streamingllm:budget=24,pos=shift");
  const std::vector<TurnCell> cells = {{&full, TurnStart::kFork, 0},
                                       {&sparse, TurnStart::kFork, 0},
                                       {&snapkv, TurnStart::kFork, 0},
                                       {&both, TurnStart::kFork, 0},
                                       {&snapkv, TurnStart::kFork, 1},
                                       {&snapkv, TurnStart::kContinue, 2},
                                       {&shifted, TurnStart::kDenseHistory, 0},
                                       {&full, TurnStart::kDenseHistory, 0},
                                       {&full, TurnStart::kSkip, 3}};
  using Groups = std::vector<std::vector<std::size_t>>;
  const auto groups = [&](bool fidelity) {
    Groups out;
    for (const TurnPrefill& prefill : share_turn(cells, fidelity).prefills)
      out.push_back(prefill.cells);
    return out;
  };
  EXPECT_EQ(groups(false), (Groups{{0, 2}, {1, 3}, {4}, {5}, {6}, {7}}));
  // The reference of prompt 2 is used only for fidelity; those of prompts 0 and 1 exist.
  EXPECT_EQ(groups(true), (Groups{{0, 2}, {1, 3}, {4}, {5}, {}, {6}, {7}}));
  const TurnSharing sharing = share_turn(cells, true);
  std::vector<std::size_t> full_prefills;
  for (std::size_t i = 0; i < sharing.prefills.size(); ++i) {
    if (sharing.prefills[i].is_full) full_prefills.push_back(i);
  }
  EXPECT_EQ(full_prefills, (std::vector<std::size_t>{0, 2, 4}));
  EXPECT_EQ(sharing.dense_histories, (std::map<bool, std::size_t>{{false, 7}, {true, 6}}));
  EXPECT_TRUE(sharing.pre_rope_keys);
  EXPECT_EQ(sharing.window, std::max(snapkv.policies().window(), both.policies().window()));
  EXPECT_FALSE(sharing.prefills[0].is_sparse);
  EXPECT_TRUE(sharing.prefills[1].is_sparse);
}

// Prefills up to the question share rows with the dense prefill of the same prompt.
TEST(TurnSharing, SharesTheRowsBeforeTheQuestion) {
  const Method full = Method::parse("full"),
               before = Method::parse("snapkv:budget=24,window=4,compress=before_question"),
               sparse =
                   Method::parse("a-shape+h2o:budget=24,mode=prefill,compress=before_question"),
               encoded = Method::parse("int8+snapkv:budget=24,window=4,compress=before_question");
  const std::vector<TurnCell> cells = {{&before, TurnStart::kFork, 0},
                                       {&sparse, TurnStart::kFork, 0},
                                       {&encoded, TurnStart::kFork, 0},
                                       {&full, TurnStart::kFork, 0},
                                       {&before, TurnStart::kFork, 1}};
  using Wholes = std::vector<std::optional<std::size_t>>;
  const auto wholes = [&](bool fidelity) {
    Wholes out;
    for (const TurnPrefill& prefill : share_turn(cells, fidelity).prefills)
      out.push_back(prefill.whole);
    return out;
  };
  EXPECT_EQ(wholes(false), (Wholes{3, {}, {}, {}, {}}));
  EXPECT_EQ(wholes(true), (Wholes{1, {}, {}, {}, 5, {}})) << "with references, too";
}

// Cells of a method decode once while their caches and prompts are equal.
TEST(TurnSharing, DecodesEqualAnswersOnce) {
  const auto decoders = [](const std::string& spec, std::size_t turn, bool isolated = false) {
    Cells cells;
    cells.add(spec);  // reprefill, compress_once, recompress; each with own and with gold answers
    cells.add("full");
    const Dialogue dialogue = short_dialogue();
    const Unit unit{&dialogue, cells.cells};
    std::vector<std::size_t> out =
        plan_turn(unit, turn, HistoryAnswers::kAgree, isolated, {}).sharing.decoder_of;
    out.resize(6);
    return out;
  };
  using Decoders = std::vector<std::size_t>;
  EXPECT_EQ(decoders("quest:budget=24", 0), (Decoders{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(decoders("snapkv:budget=24,window=4", 0), (Decoders{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(decoders("h2o:budget=24", 0), (Decoders{0, 0, 2, 2, 0, 0}))
      << "h2o evicts while it decodes, but not with compress_once";
  // Own answers stay in the cache, gold ones replace them.
  EXPECT_EQ(decoders("quest:budget=24", 1), (Decoders{0, 0, 2, 3, 2, 3}));
  EXPECT_EQ(decoders("quest:budget=24", 2), (Decoders{0, 0, 2, 3, 2, 3}));
  EXPECT_EQ(decoders("snapkv:budget=24,window=4", 1), (Decoders{0, 0, 2, 3, 4, 5}));
  EXPECT_EQ(decoders("quest:budget=24", 0, true), (Decoders{0, 1, 2, 3, 4, 5}));
}

// With gold answers all prompts of a turn are equal, so the plan knows the groups.
TEST(PlannedTurns, AreThoseThatRun) {
  const SmallWorld world;
  const Dialogue dialogue = short_dialogue();
  const Cells all = all_methods_as_cells();
  Decoding decoding{.max_prompt_tokens = 4000, .max_new_tokens = 2};
  const auto expect_planned = [&](const std::vector<UnitCell>& cells, std::size_t turns) {
    const Dialogue first = beginning(dialogue, turns);
    const Unit unit{&first, cells};
    const PlannedTurn planned =
        plan_turn(unit, turns - 1, HistoryAnswers::kAgree, decoding.isolated, decoding.fidelity);
    EXPECT_TRUE(run_sharing(world, unit, decoding) == planned.sharing) << turns << " turns";
  };
  const std::vector<UnitCell> gold = with_answers(Answers::kGold, all.cells);
  for (std::size_t turns = 1; turns <= kTurns; ++turns) expect_planned(gold, turns);
  std::vector<UnitCell> dense;
  for (const UnitCell& cell : gold) {
    const Policies& p = cell.method->policies();
    if (p.traits().needs_every_pass || cell.history == History::kCompressOnce) continue;
    dense.push_back(cell);
    if (cell.history == History::kRecompress) dense.back().history = History::kDense;
  }
  for (std::size_t turns = 1; turns <= kTurns; ++turns) expect_planned(dense, turns);
  // Fidelity adds full attention, even if it is not a cell.
  std::vector<UnitCell> methods = gold;
  std::erase_if(methods, is_reference);
  for (const Along along : {Along::kFull, Along::kGold}) {
    decoding.fidelity = along;
    expect_planned(methods, kTurns);
  }
  decoding.fidelity.reset();
  decoding.isolated = true;
  for (const UnitCell& cell : gold) expect_planned({cell}, 2);
}

/// True if every group of `fine` is a part of one of `coarse`.
bool refines(const TurnSharing& fine, const TurnSharing& coarse) {
  return std::all_of(fine.prefills.begin(), fine.prefills.end(), [&](const TurnPrefill& part) {
    return std::any_of(coarse.prefills.begin(), coarse.prefills.end(), [&](const auto& whole) {
      return part.start == whole.start && part.key == whole.key &&
             std::includes(whole.cells.begin(), whole.cells.end(), part.cells.begin(),
                           part.cells.end());
    });
  });
}

// With the methods' own answers, a plan has two bounds.
TEST(PlannedTurns, BoundWhatRuns) {
  const SmallWorld world;
  const Cells all = all_methods_as_cells();
  const Decoding decoding{
      .max_prompt_tokens = 4000, .max_new_tokens = 3, .temperature = 3, .seed = 4};
  const Dialogue dialogue = short_dialogue();
  const Unit unit{&dialogue, all.cells};
  const auto planned = [&](HistoryAnswers answers) {
    return plan_turn(unit, kTurns - 1, answers, false, {}).sharing;
  };
  const TurnSharing run = run_sharing(world, unit, decoding),
                    agree = planned(HistoryAnswers::kAgree),
                    differ = planned(HistoryAnswers::kDiffer);
  EXPECT_TRUE(refines(run, agree));
  EXPECT_TRUE(refines(differ, run));
  EXPECT_LT(agree.prefills.size(), run.prefills.size()) << "some answers differ";
  EXPECT_LT(run.prefills.size(), differ.prefills.size()) << "some answers agree";
}

// The tokens that a run prefills are those of its planned prefills.
TEST(PlannedTurns, CountThePrefilledTokens) {
  const SmallWorld world;
  const Dialogue dialogue = short_dialogue();
  const Cells all = all_methods_as_cells();
  const Unit unit{&dialogue, with_answers(Answers::kGold, all.cells)};
  const UnitResult result = world.run({unit}, {.max_prompt_tokens = 4000, .max_new_tokens = 2});
  std::map<int, std::int64_t> prompts;
  for (const Record& r : result.records) prompts[r.turn] = r.prompt_tokens;
  ASSERT_EQ(prompts.size(), kTurns);
  std::int64_t expected = 0;
  for (std::size_t turn = 0; turn < kTurns; ++turn) {
    const std::int64_t prompt = prompts.at(static_cast<int>(turn)),
                       before = turn > 0 ? prompts.at(static_cast<int>(turn) - 1) : 0;
    for (const TurnPrefill& prefill :
         plan_turn(unit, turn, HistoryAnswers::kAgree, false, {}).sharing.prefills) {
      const bool goes_on = prefill.start == TurnStart::kContinue || prefill.reuses_cached_prompt;
      expected += goes_on ? prompt - before : prompt;
    }
  }
  EXPECT_EQ(result.prefilled_tokens, expected);
}

}  // namespace
}  // namespace turnbench::test
