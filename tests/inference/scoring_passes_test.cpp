// Evictions with scoring passes: the passes that the engine computes after a prompt.

#include <gtest/gtest.h>

#include "common/error.h"
#include "conversation.h"
#include "inference/policy/policy_checks.h"
#include "test_policies.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

using namespace test;

/// The calls of the scoring passes of one prompt.
struct Calls {
  std::vector<int> tokens;       ///< of the dialogue
  std::vector<float> embedding;  ///< of token 5
  /// (pass, layer, tokens of the first set, first position of the rows)
  std::vector<std::array<int, 4>> scored;
};

struct RecordedPasses : ScoringPasses {
  RecordedPasses(std::string name, std::vector<Calls>& calls) : name(std::move(name)), all(calls) {}
  std::string key() const override { return name; }
  int longest_pass(int) const override { return 0; }
  int tokens_of_passes(int) const override { return 0; }
  std::vector<std::vector<int>> begin(const DialogueView& dialogue) override {
    all.push_back({{dialogue.tokens.begin(), dialogue.tokens.end()}, dialogue.embedding(5), {}});
    return {{5, 6, 7}, {8, 9}};
  }
  void score(const LayerView& view, std::size_t pass) override {
    all.back().scored.push_back(
        {static_cast<int>(pass), view.layer, view.sets[0].size(), view.first_position});
  }
  std::string name;
  std::vector<Calls>& all;
};

/// Keeps a fixed list of slots, after scoring passes.
struct KeepScored : KeepList {
  KeepScored(Ints slots, std::string name, std::vector<Calls>& calls)
      : KeepList(std::move(slots)), name(std::move(name)), calls(calls) {}
  std::unique_ptr<EvictionPolicy> clone() const override {
    return std::make_unique<KeepScored>(*this);
  }
  std::unique_ptr<ScoringPasses> scoring_passes(int) const override {
    return std::make_unique<RecordedPasses>(name, calls);
  }
  KeepSets after_prefill(const LayerView& view) override {
    EXPECT_EQ(view.scoring->key(), name);
    return KeepList::after_prefill(view);
  }
  std::string name;
  std::vector<Calls>& calls;
};

class Scoring : public testing::Test {
 protected:
  Policies scored(const Ints& slots, const std::string& name) {
    return {.eviction = std::make_unique<KeepScored>(slots, name, calls_)};
  }
  static Policies plain(const Ints& slots) {
    return {.eviction = std::make_unique<KeepList>(slots)};
  }
  void expect_same_answers(Conversation& a, Conversation& b) {
    for (const int token : answer_) EXPECT_TRUE(a.answer(token) == b.answer(token));
    EXPECT_TRUE(cached_rows(a.sequence) == cached_rows(b.sequence));
    EXPECT_EQ(a.sequence.tokens, b.sequence.tokens);
  }

  std::vector<Calls> calls_;
  Machine machine_{"llama3"};
  const std::vector<int> prompt_ = synthetic_tokens(90, 1), answer_ = synthetic_tokens(3, 2);
};

TEST_F(Scoring, PassesFollowThePromptAndLeaveNoTrace) {
  const Ints slots = {0, 3, 50, 89};
  Conversation with(machine_.engine, scored(slots, "a")), without(machine_.engine, plain(slots));
  EXPECT_TRUE(with.turn(prompt_) == without.turn(prompt_));
  ASSERT_EQ(calls_.size(), 1u);
  EXPECT_EQ(calls_[0].tokens, prompt_);
  std::vector<std::array<int, 4>> want;
  for (const auto& [pass, rows] : {std::pair(0, 3), std::pair(1, 2)}) {
    for (int l = 0; l < machine_.engine.shape().layers; ++l)
      want.push_back({pass, l, 90 + rows, 90});
  }
  EXPECT_EQ(calls_[0].scored, want);
  // The rows of the passes attend to 90 tokens and to those of the pass.
  const ModelShape& shape = machine_.engine.shape();
  EXPECT_EQ(with.sequence.counters.prefill_pairs - without.sequence.counters.prefill_pairs,
            shape.layers * shape.heads * (91 + 92 + 93 + 91 + 92));
  EXPECT_EQ(with.sequence.counters.prefill_pairs_dense,
            without.sequence.counters.prefill_pairs_dense);
  expect_same_answers(with, without);
  // A later turn, whose passes follow the tokens that are left.
  EXPECT_TRUE(with.turn(prompt_) == without.turn(prompt_));
  EXPECT_EQ(calls_[1].scored[0], (std::array{0, 0, 4 + 3 + 90 + 3, 90 + 3 + 90}));
  expect_same_answers(with, without);
}

TEST_F(Scoring, PassesCanReadInputEmbeddings) {
  Conversation c(machine_.engine, scored({0}, "a"));
  c.turn(prompt_);
  const WeightMatrix& table = machine_.model.embedding();
  std::vector<float> want(static_cast<std::size_t>(table.in()));
  table.read_row(5, want.data());
  EXPECT_EQ(calls_.at(0).embedding, want);
  EXPECT_GT(largest(want), 0.0f);
}

TEST_F(Scoring, EqualKeysShareTheirPasses) {
  const std::vector<std::pair<Ints, std::string>> methods = {
      {{0, 1, 2}, "a"}, {{4, 5, 6, 7}, "b"}, {{80, 89}, "a"}};
  Conversation prefix(machine_.engine, {}, 40);
  std::vector<Conversation> forks, alone;
  std::vector<Sequence*> pointers;
  for (const auto& [slots, name] : methods) {
    forks.emplace_back(machine_.engine, scored(slots, name));
    alone.emplace_back(machine_.engine, plain(slots));
  }
  for (Conversation& fork : forks) pointers.push_back(&fork.sequence);
  prefix.turn_with_forks(prompt_, pointers);
  EXPECT_EQ(calls_.size(), 2u);
  EXPECT_EQ(prefix.sequence.mean_tokens(), 90);
  for (std::size_t i = 0; i < forks.size(); ++i) {
    alone[i].turn(prompt_);
    EXPECT_GT(forks[i].sequence.counters.prefill_pairs, alone[i].sequence.counters.prefill_pairs);
    expect_same_answers(forks[i], alone[i]);
  }
}

TEST_F(Scoring, NoPassesWithoutEviction) {
  Conversation c(machine_.engine, scored({0}, "a"));
  c.turn(prompt_, /*evict=*/false);
  EXPECT_TRUE(calls_.empty());
  EXPECT_EQ(c.sequence.mean_tokens(), 90);
}

TEST_F(Scoring, RefusesASelection) {
  Policies policies = scored({0}, "a");
  policies.selection = std::make_unique<ReadSome>();
  policies.method = "both";
  EXPECT_EQ(message_of([&] { check_eviction(policies, false); }),
            "both: found a selection with an eviction that scores tokens by passes after the "
            "prompt, expected one of the two");
}

}  // namespace
}  // namespace turnbench
