// A ratio budget refers to the prompt of its turn, regardless of earlier prompts.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/harness/run/small_world.h"

namespace turnbench {
namespace {

using namespace test;

/// The prompt of the last turn, after gold answers.
Prompt last_prompt(const SmallWorld& world, const Dialogue& dialogue, const Decoding& decoding) {
  Conversation conversation;
  conversation.dialogue = &dialogue;
  for (int turn = 0; turn < static_cast<int>(dialogue.turns.size()); ++turn)
    conversation.begin_turn(world.renderer, decoding, Answers::kGold, turn);
  return conversation.prompt;
}

struct Greedy {
  std::vector<int> tokens;
  double attended_tokens = 0, pairs_share = 0;
};

/// The answer of a method, with a fixed number of tokens, to a prompt without earlier turns.
Greedy answer_alone(const SmallWorld& world, const Method& method, const Prompt& prompt,
                    std::size_t tokens) {
  const auto backend = make_cpu_backend(1);
  Engine engine(world.model, *backend, {});
  Sequence sequence = engine.make_sequence(method.make());
  const DialogueView view{prompt.tokens, prompt.spans, 0, 0, {}};
  Pass pass{.sequence = &sequence, .tokens = prompt.tokens, .dialogue = &view, .prompt_end = true};
  std::vector<float> logits = engine.prefill({&pass, 1})[0];
  Greedy out;
  for (;;) {
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    out.tokens.push_back(static_cast<int>(best));
    if (out.tokens.size() == tokens) break;
    pass = {.sequence = &sequence,
            .tokens = std::span(out.tokens).last(1),
            .kind = Pass::Kind::kDecode,
            .dialogue = &view};
    logits = engine.forward({&pass, 1})[0];
  }
  const Counters& c = sequence.counters;
  out.attended_tokens = c.mean_attended();
  out.pairs_share = c.prefill_pairs / c.prefill_pairs_dense;
  return out;
}

// With a new prefill in each turn, a dialogue's last turn equals a dialogue of one turn with that
// prompt.
TEST(PromptShares, InfLlmUsesTheRatioOfEachPrefilledPrompt) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues =
      make_tiny_dialogues(TinyTask::kList, {.turns = 2, .length = 300, .count = 1, .seed = 3});
  const std::vector<Method> methods = {
      Method::parse("infllm:budget=1/5,init=4,block=8,repr=1,exc=32"),
      Method::parse("infllm:budget=40,init=4,block=8,repr=1,exc=32"), Method::parse("full")};
  std::vector<UnitCell> cells;
  for (const Method& method : methods)
    cells.push_back({method.label(), &method, History::kReprefill, Answers::kGold});
  Decoding decoding{.max_prompt_tokens = 4000, .max_new_tokens = 8};
  const Prompt prompt = last_prompt(world, dialogues[0], decoding);
  for (const bool isolated : {false, true}) {
    decoding.isolated = isolated;
    std::map<RecordKey, Result> results;
    if (isolated) {
      for (const UnitCell& cell : cells)
        results.merge(by_key(world.run({{&dialogues[0], {cell}}}, decoding).records));
    } else {
      results = by_key(world.run({{&dialogues[0], cells}}, decoding).records);
    }
    for (std::size_t m = 0; m < 2; ++m) {
      SCOPED_TRACE(cells[m].key + (isolated ? ", alone" : ", shared"));
      const Result& first = results.at({cells[m].key, dialogues[0].id, 0});
      const Result& second = results.at({cells[m].key, dialogues[0].id, 1});
      ASSERT_GT(second.prompt_tokens, 3 * first.prompt_tokens / 2) << "the shares would be equal";
      ASSERT_EQ(second.error, "");
      const std::size_t fed = second.answer_tokens.size() + (second.stopped ? 1 : 0);
      const Greedy want = answer_alone(world, methods[m], prompt, fed);
      EXPECT_TRUE(std::equal(second.answer_tokens.begin(), second.answer_tokens.end(),
                             want.tokens.begin()));
      EXPECT_EQ(second.counters.at("attended_tokens"), want.attended_tokens);
      EXPECT_EQ(second.counters.at("prefill_pairs_share"), want.pairs_share);
    }
  }
}

}  // namespace
}  // namespace turnbench
