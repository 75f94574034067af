// compress_block: prompts are computed in blocks, with an eviction after each of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "harness/run/unit.h"
#include "tests/harness/run/small_world.h"
#include "tests/message_of.h"

namespace turnbench::test {
namespace {

const std::string kBlocks = ",compress_block=40",
                  kBlocksBeforeQuestion = kBlocks + ",compress=before_question";

/// The answer to a turn, and the tokens per set when it begins, by one forward pass per block.
struct ByHand {
  std::vector<int> answer;
  double kept = 0;
};

ByHand in_blocks(const SmallWorld& world, const std::string& spec, std::size_t block,
                 const Conversation& conversation, int turn) {
  const Method method = Method::parse(spec);
  const auto backend = make_cpu_backend(1);
  Engine engine(world.model, *backend, {});
  Sequence sequence = engine.make_sequence(method.make());
  const std::vector<int>& prompt = conversation.prompt.tokens;
  std::size_t end = prompt.size();
  if (method.policies().evicts_before_question)
    end = static_cast<std::size_t>(question_of(conversation.prompt.spans, turn)->begin);
  DialogueView whole = world.renderer.view(conversation.prompt, *conversation.dialogue, turn);
  if (end < prompt.size()) {
    const std::vector<Span>& spans = conversation.prompt.spans;
    whole.prompt = std::span(prompt).first(end);
    whole.prompt_spans = std::span(spans.begin(), question_of(spans, turn));
  }
  const auto compute = [&](std::span<const int> tokens, bool evict, bool decodes = false) {
    std::vector<Span> spans;
    const auto limit = static_cast<int>(sequence.tokens.size() + tokens.size());
    for (const Span& s : conversation.prompt.spans) {
      if (s.begin < limit) spans.push_back({s.kind, s.turn, s.begin, std::min(s.end, limit)});
    }
    DialogueView view = whole;
    view.spans = spans;
    const Pass pass{.sequence = &sequence,
                    .tokens = tokens,
                    .kind = decodes ? Pass::Kind::kDecode : Pass::Kind::kPrefill,
                    .dialogue = &view,
                    .prompt_end = !decodes,
                    .evict = evict};
    return engine.forward({&pass, 1})[0];
  };
  std::vector<float> logits;
  for (std::size_t first = 0; first < end; first += block)
    logits = compute(std::span(prompt).subspan(first, std::min(block, end - first)), true);
  if (end < prompt.size()) logits = compute(std::span(prompt).subspan(end), false);
  const double kept = sequence.mean_tokens();
  return {greedy_answer(world, std::move(logits),
                        [&](std::span<const int> token) { return compute(token, true, true); }),
          kept};
}

TEST(CompressBlock, EqualsOnePassPerBlock) {
  const SmallWorld world;
  std::size_t different = 0;  // answers that blocks change
  for (const Position position : {Position::kBegin, Position::kEnd}) {
    const Dialogue dialogue = small_dialogue_at(position);
    for (const std::string method :
         {"snapkv:budget=24,window=4", "adakv:budget=24,window=4", "keydiff:budget=24",
          "expected-attention:budget=24,sinks=2", "sablock:budget=24", "h2o:budget=24,mode=prefill",
          "tova:budget=24,mode=prefill", "streamingllm:budget=24,rolling=false",
          "int8+keydiff:budget=24", "tova:budget=24", "h2o:budget=24",
          "streamingllm:budget=24,pos=shift", "epicache:budget=24",
          "epicache:budget=24,heads=uniform,utterances=1,medoids=1"}) {
      std::vector<std::string> specs = {method + kBlocks};
      const Method parsed = Method::parse(method);
      if (!parsed.policies().evict_in_answers()) specs.push_back(method + kBlocksBeforeQuestion);
      for (const std::string& spec : specs) {
        Cells cells;
        cells.add(spec);
        cells.add(method);
        const auto records = by_key(world.run({{&dialogue, cells.cells}}, kFourTokens).records);
        Conversation conversation;
        conversation.dialogue = &dialogue;
        for (int turn = 0; turn < 2; ++turn) {
          conversation.begin_turn(world.renderer, kFourTokens, Answers::kGold, turn);
          const ByHand want = in_blocks(world, spec, 40, conversation, turn);
          const Result& got = records.at({spec + " reprefill gold", dialogue.id, turn});
          EXPECT_EQ(got.error, "") << spec;
          EXPECT_EQ(got.answer_tokens, want.answer) << spec << ", turn " << turn;
          EXPECT_EQ(got.counters.at("kv_tokens"), want.kept) << spec << ", turn " << turn;
          const Result& whole = records.at({method + " reprefill gold", dialogue.id, turn});
          different += got.answer_tokens != whole.answer_tokens;
        }
      }
    }
  }
  EXPECT_GT(different, 20u);
}

TEST(CompressBlock, ChangesNothingIfThePromptIsOneBlock) {
  const SmallWorld world;
  const Dialogue dialogue = small_dialogue_at(Position::kMiddle);
  const std::vector<std::string> methods = {"snapkv:budget=24,window=4", "h2o:budget=24",
                                            "adakv:budget=50%,window=4,compress=before_question"};
  for (const std::string& method : methods) {
    Cells without, with;
    without.add(method);
    with.add(method + ",compress_block=4000");
    const auto want = world.run({{&dialogue, without.cells}}, kFourTokens).records,
               got = world.run({{&dialogue, with.cells}}, kFourTokens).records;
    ASSERT_EQ(got.size(), want.size());
    std::vector<Record> renamed = got;
    for (Record& r : renamed) r.cell.erase(r.cell.find(",compress_block=4000"), 20);
    auto results = by_key(renamed);
    for (auto& [key, expected] : by_key(want)) {
      Result& found = results.at(key);
      // With blocks, all rows of the prompt are counted; otherwise those of the turn.
      const std::string share = "prefill_pairs_share";
      EXPECT_NEAR(found.counters.at(share), expected.counters.at(share), 1e-4);
      found.counters[share] = expected.counters.at(share);
      EXPECT_EQ(found.error, expected.error) << std::get<0>(key);
      EXPECT_EQ(found.answer_tokens, expected.answer_tokens) << std::get<0>(key);
      EXPECT_EQ(found.counters, expected.counters) << std::get<0>(key);
    }
  }
}

// With others, alone, and alone with times; with keys and values in host memory.
TEST(CompressBlock, DoesNotDependOnTheBatch) {
  const SmallWorld world;
  const Dialogue dialogue = small_dialogue_at(Position::kMiddle, 3);
  Cells cells;
  const std::string snapkv = "snapkv:budget=24,window=4";
  for (const std::string& spec : std::vector<std::string>{
           "full", snapkv, snapkv + kBlocks, snapkv + kBlocks + ",placement=host",
           snapkv + kBlocksBeforeQuestion, "keydiff:budget=24" + kBlocks,
           "tova:budget=24" + kBlocks, "int8+" + snapkv + kBlocks,
           "kivi:residual=32+" + snapkv + kBlocks, "pyramidkv:budget=24,window=4" + kBlocks,
           "epicache:budget=24", "epicache:budget=30,heads=uniform", "epicache:budget=24" + kBlocks,
           "epicache:budget=24,placement=host" + kBlocks,
           "int8+epicache:budget=24" + kBlocksBeforeQuestion}) {
    cells.add(spec);
  }
  const auto together = expect_independence_of_the_batch(world, dialogue, cells.cells);
  for (const UnitCell& cell : cells.cells) {
    const std::string host = ",placement=host";
    const std::size_t at = cell.key.find(host);
    if (at == std::string::npos) continue;
    const std::string device = std::string(cell.key).erase(at, host.size());
    for (int turn = 0; turn < 3; ++turn) {
      EXPECT_EQ(together.at({cell.key, dialogue.id, turn}).answer_tokens,
                together.at({device, dialogue.id, turn}).answer_tokens);
    }
  }
}

// The cache never holds a whole prompt.
TEST(CompressBlock, LimitsTheMemoryOfThePrefill) {
  const SmallWorld world;
  const Dialogue dialogue = with_questions_at(
      make_tiny_dialogues(TinyTask::kFact, {.turns = 1, .length = 1500, .count = 1, .seed = 3})[0],
      Position::kEnd);
  const auto peak_pages = [&](const std::string& spec) {
    Cells cells;
    cells.add(spec);
    const auto backend = make_cpu_backend(1);
    Engine engine(world.model, *backend, {});
    run_units(engine, world.renderer, kFourTokens, {{&dialogue, {cells.cells[0]}}});
    const ElementLayout layout{engine.shape().head_dim, DType::kF32, false};
    const std::size_t page = PageLayout{layout}.bytes(),
                      sets =
                          static_cast<std::size_t>(engine.shape().layers * engine.shape().kv_heads);
    return engine.memory().peak_kv_bytes() / page / sets;
  };
  EXPECT_GT(peak_pages("snapkv:budget=64"), 20u) << "pages of 64 tokens";
  EXPECT_LE(peak_pages("snapkv:budget=64,compress_block=128"), 4u);
  EXPECT_LE(peak_pages("epicache:budget=64,compress_block=128,utterances=1,medoids=1"), 12u)
      << "the cached tokens, and those of a scoring pass";
  // The limit of a run counts the tokens that are cached, not those of the prompt.
  Engine::Options options;
  options.memory_limit = world.model.weight_bytes() + (std::size_t{3} << 20);
  const auto status = [&](const std::string& spec) {
    Cells cells;
    cells.add(spec);
    return world.run({{&dialogue, {cells.cells[0]}}}, kFourTokens, 1, options).records[0].status;
  };
  EXPECT_EQ(status("snapkv:budget=64"), Record::Status::kOutOfMemory);
  EXPECT_EQ(status("snapkv:budget=64,compress_block=64"), Record::Status::kOk);
}

TEST(CompressBlock, IsRefusedWhereItCannotBe) {
  const auto message = [](const std::string& spec) {
    return message_of([&] { Method::parse(spec); });
  };
  EXPECT_EQ(message("quest:budget=64,compress_block=64"),
            "method: quest: compress_block: found 64 with a method that evicts nothing, expected "
            "one that evicts");
  EXPECT_EQ(message("kvzip:budget=64,compress_block=64"),
            "method: kvzip: compress_block: found 64 with a method that computes the prompt again "
            "to score its tokens, expected one that does not");
  EXPECT_EQ(message("snapkv:compress_block=64+quest"),
            "method: compress_block: found 64 in \"snapkv:compress_block=64+quest\", with a method "
            "that selects tokens, expected none: it needs whole prompts");
  EXPECT_EQ(message("minference+snapkv:compress_block=64"),
            "method: compress_block: found 64 in \"minference+snapkv:compress_block=64\", with a "
            "method that decides the prefill, expected none: it needs whole prompts");
  EXPECT_EQ(
      message("snapkv:compress_block=-1"),
      "method: snapkv: compress_block: found -1, expected a whole number from 0 to 1000000000");
  EXPECT_EQ(Method::parse("snapkv:budget=64,compress_block=0").canonical(),
            Method::parse("snapkv:budget=64").canonical());
  EXPECT_EQ(Method::parse("snapkv:compress_block=64").setting("compress_block"), "64");
  EXPECT_EQ(Method::parse("snapkv").setting("compress_block"), "0");
  EXPECT_EQ(Method::parse("quest").setting("compress_block"), std::nullopt);
}

}  // namespace
}  // namespace turnbench::test
