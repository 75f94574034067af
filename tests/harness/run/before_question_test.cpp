// compress=before_question: tokens are evicted when the prompt has been computed up to its
// question.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "harness/run/unit.h"
#include "tests/harness/run/small_world.h"
#include "tests/message_of.h"

namespace turnbench::test {
namespace {

const std::string kBeforeQuestion = ",compress=before_question";

/// The answer after prefilling a prompt up to its question, with eviction, and then to its end.
struct TwoPasses {
  std::vector<int> answer;
  double kept = 0;  ///< tokens per set
};

TwoPasses in_two_passes(const SmallWorld& world, const std::string& spec,
                        const Conversation& conversation, int turn) {
  const std::vector<Span>& all = conversation.prompt.spans;
  const auto question = question_of(all, turn);
  const auto begin = static_cast<std::size_t>(question->begin);
  const std::vector<Span> before(all.begin(), question);
  const auto backend = make_cpu_backend(1);
  Engine engine(world.model, *backend, {});
  Sequence sequence = engine.make_sequence(Method::parse(spec).make());
  const std::span<const int> prompt = conversation.prompt.tokens;
  const DialogueView second =
      world.renderer.view(conversation.prompt, *conversation.dialogue, turn);
  DialogueView first = second;
  first.tokens = prompt.first(begin);
  first.spans = before;
  const auto compute = [&](std::span<const int> tokens, Pass::Kind kind, bool evict) {
    const Pass pass{.sequence = &sequence,
                    .tokens = tokens,
                    .kind = kind,
                    .dialogue = evict ? &first : &second,
                    .prompt_end = kind == Pass::Kind::kPrefill,
                    .evict = evict};
    return engine.forward({&pass, 1})[0];
  };
  compute(prompt.first(begin), Pass::Kind::kPrefill, true);
  std::vector<float> logits = compute(prompt.subspan(begin), Pass::Kind::kPrefill, false);
  const double kept = sequence.mean_tokens();
  return {greedy_answer(world, std::move(logits),
                        [&](std::span<const int> token) {
                          return compute(token, Pass::Kind::kDecode, false);
                        }),
          kept};
}

TEST(BeforeQuestion, EqualsTwoPasses) {
  const SmallWorld world;
  for (const Position position : {Position::kBegin, Position::kMiddle, Position::kEnd}) {
    const Dialogue dialogue = small_dialogue_at(position);
    for (const std::string method :
         {"snapkv:budget=24,window=4", "adakv:budget=24,window=4", "pyramidkv:budget=24,window=4",
          "chunkkv:budget=24,window=4", "sablock:budget=24", "h2o:budget=24,mode=prefill",
          "streamingllm:budget=24,rolling=false", "tova:budget=24,mode=prefill",
          "int8+snapkv:budget=24,window=4", "kvzip:budget=40"}) {
      const std::string spec = method + kBeforeQuestion;
      Cells cells;
      cells.add(spec);
      const auto records = by_key(world.run({{&dialogue, cells.cells}}, kFourTokens).records);
      Conversation conversation;
      conversation.dialogue = &dialogue;
      for (int turn = 0; turn < 2; ++turn) {
        conversation.begin_turn(world.renderer, kFourTokens, Answers::kGold, turn);
        const TwoPasses want = in_two_passes(world, spec, conversation, turn);
        const Result& got = records.at({spec + " reprefill gold", dialogue.id, turn});
        EXPECT_EQ(got.error, "") << spec;
        EXPECT_EQ(got.answer_tokens, want.answer) << spec << ", turn " << turn;
        EXPECT_EQ(got.counters.at("kv_tokens"), want.kept) << spec << ", turn " << turn;
      }
    }
  }
}

// With the question at the end, the tokens kept do not depend on it.
TEST(BeforeQuestion, KeepsTheBudgetAndTheQuestion) {
  const SmallWorld world;
  const Dialogue dialogue = small_dialogue_at(Position::kEnd);
  const std::string spec = "snapkv:budget=24,window=4" + kBeforeQuestion;
  Cells cells;
  cells.add(spec);
  const auto records = by_key(world.run({{&dialogue, cells.cells}}, kFourTokens).records);
  for (int turn = 0; turn < 2; ++turn) {
    const RenderedTurn rendered = world.renderer.render(dialogue, turn, 0);
    const auto question = std::find_if(rendered.spans.begin(), rendered.spans.end(),
                                       [](const Span& s) { return s.kind == SpanKind::kQuestion; });
    const auto rest = static_cast<double>(std::ssize(rendered.tokens) - question->begin);
    for (const char* history : {"reprefill", "recompress"}) {
      const Result& got = records.at({spec + " " + history + " own", dialogue.id, turn});
      EXPECT_EQ(got.counters.at("kv_tokens"), 24 + rest) << history << ", turn " << turn;
    }
  }
}

// A budget that is a share refers to the text before the question, also for what steps read.
TEST(BeforeQuestion, SharesOfSentencesReadAreOfTheTextBefore) {
  const SmallWorld world;
  const Dialogue dialogue = small_dialogue_at(Position::kEnd);
  const auto run = [&](const std::string& budget, Cells& cells) {
    cells.add("sentencekv:semantic_factor=1,window=4,sinks=2,recent=4,budget=" + budget +
              kBeforeQuestion);
    return by_key(world.run({{&dialogue, {cells.cells[1]}}}, kFourTokens).records);
  };
  Conversation conversation;
  conversation.dialogue = &dialogue;
  for (int turn = 0; turn < 2; ++turn) {
    conversation.begin_turn(world.renderer, kFourTokens, Answers::kGold, turn);
    const std::vector<Span>& spans = conversation.prompt.spans;
    const auto question = question_of(spans, turn);
    Cells share, tokens;
    const auto shares = run("50%", share),
               numbers = run(std::to_string(question->begin / 2), tokens);
    const Result &got = shares.at({share.cells[1].key, dialogue.id, turn}),
                 &want = numbers.at({tokens.cells[1].key, dialogue.id, turn});
    EXPECT_EQ(want.error, "");
    EXPECT_LT(want.counters.at("attended_tokens"), want.counters.at("kv_tokens"));
    EXPECT_EQ(got.answer_tokens, want.answer_tokens) << "turn " << turn;
    EXPECT_EQ(got.counters, want.counters) << "turn " << turn;
  }
}

TEST(BeforeQuestion, KeepsEverythingWithinTheBudget) {
  const SmallWorld world;
  const Dialogue dialogue = small_dialogue_at(Position::kEnd);
  Cells cells;
  cells.add("full");
  cells.add("snapkv:budget=100%,window=4" + kBeforeQuestion);
  const auto records = by_key(world.run({{&dialogue, cells.cells}}, kFourTokens).records);
  for (std::size_t i = 0; i < cells.cells.size() / 2; ++i) {
    for (int turn = 0; turn < 2; ++turn) {
      const Result &full = records.at({cells.cells[i].key, dialogue.id, turn}),
                   &got =
                       records.at({cells.cells[i + cells.cells.size() / 2].key, dialogue.id, turn});
      EXPECT_EQ(got.answer_tokens, full.answer_tokens) << cells.cells[i].key;
      EXPECT_EQ(got.counters.at("kv_tokens"), full.counters.at("kv_tokens"));
    }
  }
}

// With others, alone, and alone with times; beside methods that evict at the end of the prompt.
TEST(BeforeQuestion, DoesNotDependOnTheBatch) {
  const SmallWorld world;
  const Dialogue dialogue = small_dialogue_at(Position::kMiddle, 3);
  Cells cells;
  const std::string snapkv = "snapkv:budget=24,window=4";
  for (const std::string& spec : std::vector<std::string>{
           snapkv, snapkv + kBeforeQuestion, snapkv + kBeforeQuestion + ",placement=host",
           "minference:vertical=16,slash=100+" + snapkv + kBeforeQuestion,
           "a-shape:n_init=2,n_local=16+" + snapkv + kBeforeQuestion,
           snapkv + kBeforeQuestion + "+quest:budget=16,page=8", "int8+" + snapkv + kBeforeQuestion,
           "sentencekv:budget=24,window=4,sinks=2,recent=4" + kBeforeQuestion,
           "streamingllm:budget=24,rolling=false" + kBeforeQuestion, "h2o:budget=24,mode=prefill",
           "h2o:budget=24,mode=prefill" + kBeforeQuestion, "expected-attention:budget=24,sinks=2",
           "expected-attention:budget=24,sinks=2" + kBeforeQuestion,
           "criticalkv:budget=24,window=4" + kBeforeQuestion, "specontext-self:budget=16",
           "epicache:budget=40" + kBeforeQuestion, "kvzip:budget=40" + kBeforeQuestion,
           "kvzip:budget=60,placement=host" + kBeforeQuestion,
           "int8+kvzip:budget=40" + kBeforeQuestion}) {
    cells.add(spec);
  }
  expect_independence_of_the_batch(world, dialogue, cells.cells);
}

TEST(BeforeQuestion, NeedsTextBeforeTheQuestion) {
  const SmallWorld world;
  Dialogue dialogue = small_dialogue_at(Position::kEnd);
  for (Turn& turn : dialogue.turns) {
    turn.layout = Layout::kPlain;
    turn.instruction.clear();
    turn.contexts.clear();
  }
  Cells cells;
  cells.add("snapkv:budget=24,window=4" + kBeforeQuestion);
  for (const Record& r : world.run({{&dialogue, cells.cells}}, kFourTokens).records) {
    EXPECT_EQ(r.error,
              "found turn 1 without text before its question, expected some: snapkv evicts there");
  }
}

// With the question at the beginning, the text before it can be shorter than what is always kept.
TEST(BeforeQuestion, SharesOfAShortTextKeepItWhole) {
  const SmallWorld world;
  Dialogue dialogue = small_dialogue_at(Position::kBegin);
  for (Turn& turn : dialogue.turns) turn.instruction.clear();
  Cells cells;
  for (const char* method : {"streamingllm:budget=20%,rolling=false", "h2o:budget=20%,mode=prefill",
                             "tova:budget=20%,mode=prefill", "snapkv:budget=20%,window=4",
                             "kvzip:budget=20%", "sentencekv:budget=20%,window=4,sinks=4,recent=4"})
    cells.add(method + kBeforeQuestion);
  for (const Record& r : world.run({{&dialogue, cells.cells}}, kFourTokens).records)
    EXPECT_EQ(r.error, "") << r.cell << " turn " << r.turn;
}

TEST(BeforeQuestion, IsRefusedWithoutAnEvictionAtTheEndOfPrompts) {
  const auto message = [](const std::string& spec) {
    return message_of([&] { Method::parse(spec); });
  };
  EXPECT_EQ(message("quest:budget=64,compress=before_question"),
            "method: quest: compress: found before_question with a method that evicts nothing, "
            "expected one that evicts at the end of prompts only");
  EXPECT_EQ(message("tova:budget=64,compress=before_question"),
            "method: tova: compress: found before_question with a method that also evicts while it "
            "decodes, expected one that evicts at the end of prompts only");
  EXPECT_EQ(message("snapkv:budget=64,compress=later"),
            "method: snapkv: compress: found \"later\", expected one of: prompt, before_question");
  EXPECT_EQ(Method::parse("snapkv:budget=64,compress=prompt").canonical(),
            Method::parse("snapkv:budget=64").canonical());
}

}  // namespace
}  // namespace turnbench::test
