// history=dense: only the last turn is answered, after a history computed with full attention.

#include <gtest/gtest.h>

#include <deque>

#include "harness/run/unit.h"
#include "tests/harness/run/small_world.h"
#include "tests/methods/settings.h"

namespace turnbench::test {
namespace {

constexpr Decoding kShort{.max_prompt_tokens = 4000, .max_new_tokens = 4};

/// Cells with gold answers; their key is the method and the history.
class GoldCells {
 public:
  void add(const std::string& spec, History history) {
    const Method& method = methods_.emplace_back(Method::parse(spec));
    cells.push_back({spec + " " + std::string(name_of(history)), &method, history, Answers::kGold});
  }
  std::vector<UnitCell> cells;

 private:
  std::deque<Method> methods_;
};

Dialogue dialogue_of_three_turns() {
  return make_tiny_dialogues(TinyTask::kFact,
                             {.turns = 3, .length = 130, .count = 1, .seed = 3})[0];
}

TEST(DenseHistory, AsksOnlyTheLastTurn) {
  const SmallWorld world;
  const Dialogue dialogue = dialogue_of_three_turns();
  GoldCells cells;
  cells.add("full", History::kDense);
  cells.add("full", History::kReprefill);
  cells.add("snapkv:budget=24,window=4", History::kDense);
  const UnitResult result = world.run({{&dialogue, cells.cells}}, kShort);
  ASSERT_EQ(result.records.size(), 9u);
  const auto records = by_key(result.records);
  for (const UnitCell& cell : cells.cells) {
    for (int turn = 0; turn < 3; ++turn) {
      const Result& r = records.at({cell.key, dialogue.id, turn});
      const bool asked = turn == 2 || cell.history == History::kReprefill;
      EXPECT_EQ(r.status, asked ? Record::Status::kOk : Record::Status::kNoValue) << cell.key;
      EXPECT_EQ(r.error.empty(), asked);
      EXPECT_EQ(r.answer_tokens.empty(), !asked);
      EXPECT_EQ(r.counters.empty(), !asked);
    }
  }
  // Full attention has the same answers as with reprefill.
  EXPECT_TRUE(records.at({"full dense", dialogue.id, 2}) ==
              records.at({"full reprefill", dialogue.id, 2}));
}

// A selection that needs no statistics of the prompt selects as after its own prefill of the
// dialogue.
TEST(DenseHistory, EqualsReprefillIfThePrefillIsDense) {
  const SmallWorld world;
  const Dialogue dialogue = dialogue_of_three_turns();
  GoldCells cells;
  const char* specs[] = {"oracle:budget=24,sinks=2", "streamingllm:budget=24",
                         "quest:budget=32,page=8"};
  for (const char* spec : specs) {
    cells.add(spec, History::kDense);
    cells.add(spec, History::kReprefill);
  }
  const auto records = by_key(world.run({{&dialogue, cells.cells}}, kShort).records);
  for (const std::string spec : specs) {
    const Result &dense = records.at({spec + " dense", dialogue.id, 2}),
                 &whole = records.at({spec + " reprefill", dialogue.id, 2});
    EXPECT_EQ(dense.answer_tokens, whole.answer_tokens) << spec;
    EXPECT_EQ(dense.counters, whole.counters) << spec;
  }
}

// A sparse prefill computes the last turn's rows, after keys and values of full attention.
TEST(DenseHistory, IsComputedWithFullAttentionForSparsePrefills) {
  const SmallWorld world;
  const Dialogue dialogue = dialogue_of_three_turns();
  const std::string spec = "a-shape:n_init=2,n_local=16";
  GoldCells cells;
  cells.add(spec, History::kDense);
  Decoding decoding = kShort;
  decoding.max_new_tokens = 1;
  const auto records = by_key(world.run({{&dialogue, cells.cells}}, decoding).records);
  const Result& got = records.at({spec + " dense", dialogue.id, 2});

  Conversation conversation;
  conversation.dialogue = &dialogue;
  for (int turn = 0; turn < 3; ++turn)
    conversation.begin_turn(world.renderer, decoding, Answers::kGold, turn);
  const std::vector<int>& prompt = conversation.prompt.tokens;
  const std::size_t last = world.renderer.render(dialogue, 2, 0).tokens.size();
  const auto backend = make_cpu_backend(1);
  Engine engine(world.model, *backend, {});
  const DialogueView view{prompt, conversation.prompt.spans, 2, 0, {}};
  Sequence history = engine.make_sequence({});
  const Pass before{.sequence = &history,
                    .tokens = std::span(prompt).first(prompt.size() - last),
                    .dialogue = &view};
  engine.prefill({&before, 1});
  Sequence sequence = history.fork_as(Method::parse(spec).make());
  sequence.counters = {};
  const Pass turn{.sequence = &sequence,
                  .tokens = std::span(prompt).last(last),
                  .dialogue = &view,
                  .prompt_end = true};
  const std::vector<float> logits = engine.prefill({&turn, 1})[0];
  const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
  EXPECT_EQ(got.answer_tokens, std::vector<int>{static_cast<int>(best)});
  EXPECT_EQ(got.counters.at("prefill_pairs_share"),
            sequence.counters.prefill_pairs / sequence.counters.prefill_pairs_dense);
  EXPECT_LT(got.counters.at("prefill_pairs_share"), 0.5);
}

// Every method, with others, alone, and alone with times.
TEST(DenseHistory, DoesNotDependOnTheBatch) {
  const SmallWorld world;
  const Dialogue dialogue = dialogue_of_three_turns();
  GoldCells cells;
  for (const MethodInfo& info : all_methods()) {
    const std::string spec = spec_of(info, small_values(info));
    const Policies policies = Method::parse(spec).make();
    if (!policies.traits().needs_every_pass) cells.add(spec, History::kDense);
  }
  EXPECT_LT(cells.cells.size(), all_methods().size()) << "some must see every token";
  cells.add("pqcache:budget=24,sinks=2,placement=host", History::kDense);
  const auto together = by_key(world.run({{&dialogue, cells.cells}}, kShort).records);
  Decoding isolated = kShort;
  isolated.isolated = true;
  for (const UnitCell& cell : cells.cells) {
    const Result& want = together.at({cell.key, dialogue.id, 2});
    EXPECT_EQ(want.error, "") << cell.key;
    const auto alone = by_key(world.run({{&dialogue, {cell}}}, kShort).records);
    const Result& by_itself = alone.at({cell.key, dialogue.id, 2});
    EXPECT_EQ(by_itself.answer_tokens, want.answer_tokens) << cell.key;
    EXPECT_EQ(by_itself.counters, want.counters) << cell.key;
    EXPECT_TRUE(by_itself == want) << cell.key;
    const UnitResult timed = world.run({{&dialogue, {cell}}}, isolated);
    ASSERT_EQ(timed.records.size(), 3u);
    const Result got = by_key(timed.records).at({cell.key, dialogue.id, 2});
    ASSERT_LE(want.answer_tokens.size(), got.answer_tokens.size()) << "stop tokens do not end it";
    for (std::size_t i = 0; i < want.answer_tokens.size(); ++i)
      EXPECT_EQ(got.answer_tokens[i], want.answer_tokens[i]) << cell.key;
    EXPECT_EQ(timed.prefilled_tokens, want.prompt_tokens) << cell.key << ": each token once";
  }
}

// Blocks need the attention of all rows, features the hidden states of all tokens.  Manifests
// refuse both.
TEST(DenseHistory, FailsForMethodsThatMustSeeEveryToken) {
  const SmallWorld world;
  const Dialogue dialogue = dialogue_of_three_turns();
  const std::pair<const char*, const char*> refusals[] = {
      {"infllm:budget=24,init=2,block=4", "it needs all tokens in order"},
      {"specontext:budget=24,feat=prev",
       "tokens whose hidden states are not known, expected none"}};
  for (const auto& [spec, message] : refusals) {
    EXPECT_TRUE(Method::parse(spec).make().traits().needs_every_pass);
    GoldCells cells;
    cells.add(spec, History::kDense);
    const auto records = by_key(world.run({{&dialogue, cells.cells}}, kShort).records);
    const Result& last = records.at({cells.cells[0].key, dialogue.id, 2});
    EXPECT_EQ(last.status, Record::Status::kError);
    EXPECT_NE(last.error.find(message), std::string::npos) << last.error;
  }
}

TEST(DenseHistory, IsEmptyForASingleTurn) {
  const SmallWorld world;
  Dialogue dialogue = dialogue_of_three_turns();
  dialogue.turns.resize(1);
  GoldCells cells;
  cells.add("minference", History::kDense);
  cells.add("minference", History::kReprefill);
  const auto records = by_key(world.run({{&dialogue, cells.cells}}, kShort).records);
  EXPECT_TRUE(records.at({"minference dense", dialogue.id, 0}) ==
              records.at({"minference reprefill", dialogue.id, 0}));
}

}  // namespace
}  // namespace turnbench::test
