// One set of tokens for all layers, selected by a separate head: the tokens read, the bytes
// transferred, and that nothing else changes.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "methods/parts/placement_thresholds.h"
#include "methods/parts/retrieval_head.h"
#include "methods/parts/step_tokens.h"
#include "tests/inference/conversation.h"
#include "tests/message_of.h"
#include "tests/methods/shared_tokens.h"

namespace turnbench {
namespace {

using test::Ints;
using test::Lists;
using test::Watched;

constexpr int kSharedPrompt = 150;
const std::string kDraftFolder = TURNBENCH_SOURCE_DIR "/tests/data/methods/draft/";

int steps_of_shared_test() {
  return test::is_emulated() ? 3 : 12;
}

/// The heads that match the model "llama3" of three layers.
std::vector<std::string> draft_heads() {
  std::vector<std::string> out = {"head=random", "head=random,feat=prev",
                                  "head=" + kDraftFolder + "midlayer"};
  if (!test::is_emulated()) {  // whose model has two layers
    out.push_back("head=" + kDraftFolder + "layers");
    out.push_back("head=" + kDraftFolder + "layers,feat=prev");
  }
  return out;
}

TEST(StepTokens, BudgetIncludesTheCurrentToken) {
  const std::vector<std::vector<float>> rows = {{.1f, .4f, .4f, 0, .05f}, {.2f, .1f, .9f}};
  const auto backend = test::make_backend(2);
  std::vector<Buffer> buffers;
  std::vector<std::span<const float>> weights;
  for (const std::vector<float>& row : rows) {
    Buffer& buffer = buffers.emplace_back(row.size() * sizeof(float), backend->memory());
    backend->memory()->copy_floats(row.data(), buffer.as<float>(), row.size());
    weights.emplace_back(buffer.as<float>(), row.size());
  }
  const auto read = [&](int budget, int sinks = 0) {
    return best_tokens(*backend, weights, budget, sinks);
  };
  EXPECT_EQ(read(1), (Lists{{4}, {2}}));
  EXPECT_EQ(read(2), (Lists{{1, 4}, {0, 2}}));
  EXPECT_EQ(read(3), (Lists{{1, 2, 4}, {0, 1, 2}}));
  EXPECT_EQ(read(9), (Lists{{0, 1, 2, 3, 4}, {0, 1, 2}}));
  EXPECT_EQ(read(2, 1), (Lists{{0, 4}, {0, 2}})) << "the first one, whatever it weighs";
  EXPECT_EQ(read(3, 1), (Lists{{0, 1, 4}, {0, 1, 2}}));
  EXPECT_EQ(read(4, 3), (Lists{{0, 1, 2, 4}, {0, 1, 2}})) << "a row has no more than it has";
}

TEST(SpeContext, AllLayersReadTheSame) {
  test::Machine machine("llama3");
  const int layers = machine.engine.shape().layers, steps = steps_of_shared_test();
  for (const std::string& head : draft_heads()) {
    for (const char* level : {"head", "batch"}) {
      Watched c(machine, fmt::format("specontext:budget=24,level={},{}", level, head));
      c.run(kSharedPrompt, steps);
      ASSERT_EQ(c.read.size(), static_cast<std::size_t>(steps));
      for (std::size_t s = 0; s < c.read.size(); ++s) {
        ASSERT_EQ(c.read[s], std::vector<Lists>(static_cast<std::size_t>(layers), c.read[s][0]));
        ASSERT_EQ(c.read[s][0].size(), static_cast<std::size_t>(machine.engine.shape().kv_heads));
        for (const Ints& list : c.read[s][0]) {
          EXPECT_EQ(list.size(), 24u);
          EXPECT_EQ(list.back(), kSharedPrompt + static_cast<int>(s));
          if (head.find("prev") != std::string::npos) {
            EXPECT_EQ(list.front(), 0) << "no row votes for the first token";
          }
        }
        EXPECT_EQ(c.read[s][0][0] == c.read[s][0][1], level == std::string("batch")) << head;
      }
    }
  }
}

// The selection is that of a head that received the same tokens, regardless of all other
// operations.
TEST(SpeContext, ReadsTheTokensWithTheLargestWeights) {
  test::Machine machine("llama3");
  const int steps = steps_of_shared_test(), kv_heads = machine.engine.shape().kv_heads;
  Watched c(machine, "specontext:budget=24,head=" + kDraftFolder + "midlayer");
  c.run(kSharedPrompt, steps);
  const std::vector<int>& tokens = c.talk->sequence.tokens;
  const std::unique_ptr<Retriever> head =
      make_retrieval_head({.checkpoint = std::make_shared<const DraftCheckpoint>(
                               DraftCheckpoint::open(kDraftFolder + "midlayer")),
                           .name = "midlayer",
                           .longest = 32768,
                           .original = 2048});
  LayerMemo resources;
  Scratch scratch(machine.backend->memory());
  const auto pool =
      std::make_shared<KvPool>(PageLayout{16, DType::kF32, false}, machine.backend->memory());
  for (int s = 0; s < steps; ++s) {
    const RetrieverPass pass{
        .config = machine.model.config(),
        .weight_dtype = DType::kF32,
        .key_dtype = DType::kF32,
        .tokens = std::span(tokens).first(static_cast<std::size_t>(kSharedPrompt + s + 1)),
        .rows = s == 0 ? kSharedPrompt + 1 : 1,
        .backend = *machine.backend,
        .embedding = machine.model.embedding(),
        .resources = resources,
        .scratch = scratch,
        .key_pool = [&](int) { return pool; }};
    head->begin_pass(pass);
    const std::vector<std::vector<float>> weights =
        test::rows_on_host(*machine.backend, head->weights(pass, kv_heads));
    ASSERT_EQ(weights.size(), static_cast<std::size_t>(kv_heads));
    for (std::size_t h = 0; h < weights.size(); ++h) {
      std::vector<double> scores(weights[h].begin(), weights[h].end());
      scores.back() = 2;
      const Ints& got = c.read[s][0][h];
      EXPECT_TRUE(test::same_by_score(got, test::best(scores, 24), scores)) << s;
    }
  }
}

TEST(SpeContext, EqualsFullAttentionWithinItsBudget) {
  test::Machine machine("llama3");
  const int steps = steps_of_shared_test();
  const auto full = test::answers(machine, "full", kSharedPrompt, steps);
  for (const std::string& head : draft_heads()) {
    for (const char* placement : {"device", "host"}) {
      const std::string spec = fmt::format("specontext:budget={},placement={},{}",
                                           kSharedPrompt + steps, placement, head);
      EXPECT_TRUE(test::answers(machine, spec, kSharedPrompt, steps) == full) << spec;
    }
  }
}

// With all layers in host memory, each layer loads the tokens that the last step did not read, and
// in the first step all tokens except the current one.
TEST(SpeContext, LoadsTokensThatThePreviousStepDidNotRead) {
  test::Machine machine("llama3");
  const int steps = steps_of_shared_test();
  for (const std::string& head : draft_heads()) {
    const std::string spec = "specontext:budget=24," + head;
    SCOPED_TRACE(spec);
    Watched host(machine, spec);
    const auto logits = host.run(kSharedPrompt, steps);
    EXPECT_TRUE(logits == test::answers(machine, spec + ",placement=device", kSharedPrompt, steps));
    test::expect_elastic_loads(host, 0, 24);
  }
}

// The paper's ablation: without elastic loading, a step loads all tokens that it reads; without
// loading ahead, nothing else changes.
TEST(SpeContext, LoadsAllTokensWithoutElasticLoading) {
  test::Machine machine("llama3");
  const int steps = steps_of_shared_test();
  const std::string spec = "specontext:budget=24";
  const auto want = test::answers(machine, spec, kSharedPrompt, steps);
  const auto loaded = [&](const std::string& settings) {
    test::Conversation c(machine.engine, Method::parse(spec + settings).make());
    std::vector<test::Logits> got = {c.turn(test::synthetic_tokens(kSharedPrompt, 1))};
    for (const int token : test::synthetic_tokens(steps, 2)) got.push_back(c.answer(token));
    EXPECT_TRUE(got == want) << settings;
    return c.sequence.counters.ledger.total();
  };
  const LedgerEntry elastic = loaded(""), in_turn = loaded(",ahead=false"),
                    all = loaded(",cache_rule=lru,ahead=false");
  EXPECT_EQ(elastic, in_turn);
  EXPECT_EQ(all.hits, 0);
  EXPECT_EQ(all.misses, elastic.hits + elastic.misses);
  EXPECT_EQ(all.kv_fetch_bytes * elastic.misses, elastic.kv_fetch_bytes * all.misses);
  EXPECT_EQ(all.misses, std::int64_t{machine.engine.shape().layers} * steps *
                            machine.engine.shape().kv_heads * 23);
}

// All KV heads share the blocks that a step loads on demand, although each head may read others.
TEST(SpeContext, DemandLruHasRoomForAllLoadsOfAStep) {
  test::Machine machine("llama3");
  const int steps = steps_of_shared_test(), kv_heads = machine.engine.shape().kv_heads;
  const std::string spec = "specontext:budget=24";
  const auto want = test::answers(machine, spec + ",placement=device", kSharedPrompt, steps);
  const std::string demand = spec + ",cache_rule=demand-lru";
  EXPECT_TRUE(test::answers(machine, demand, kSharedPrompt, steps) == want);
  EXPECT_TRUE(test::answers(machine, fmt::format("{},cache_tokens={}", demand, 24 * kv_heads),
                            kSharedPrompt, steps) == want);
  EXPECT_EQ(test::message_of([&] {
              test::answers(machine, fmt::format("{},cache_tokens={}", demand, 24 * kv_heads - 1),
                            kSharedPrompt, 1);
            }),
            fmt::format("specontext: cache_tokens: found {} with a cache_rule that loads all "
                        "tokens of a step, expected 0 (as many as needed) or at least {}",
                        24 * kv_heads - 1, 24 * kv_heads));
}

// Layers are offloaded from the last one on, when the tokens including the step's own reach their
// thresholds (algorithm 2).
TEST(SpeContext, LayersAreOffloadedAsTokensGrow) {
  if (test::is_emulated()) GTEST_SKIP() << "a model of two layers";
  test::Machine machine("llama3");
  const ModelShape& shape = machine.engine.shape();
  const int steps = 30, prompt = 100;
  PlacementMemory memory{.layers = shape.layers,
                         .kv_heads = shape.kv_heads,
                         .head_dim = shape.head_dim,
                         .group = shape.group(),
                         .budget = 24,
                         .element = 4};
  // The memory with which the first layer is offloaded at 105 tokens.
  const double token = 2.0 * 4 * shape.kv_heads * shape.head_dim;
  memory.bytes = 105.5 * token * (shape.layers + 1 + shape.group());
  const std::vector<std::int64_t> thresholds = placement_thresholds(memory);
  ASSERT_EQ(thresholds[0], 105);
  ASSERT_LT(thresholds[1], prompt + steps);
  ASSERT_GT(thresholds[2], thresholds[1]);
  const std::string spec = "specontext:budget=24";
  Watched c(machine, fmt::format("{},memory={}", spec, memory.bytes / 1e9));
  std::vector<test::Logits> logits = {c.talk->turn(test::synthetic_tokens(prompt, 1))};
  const auto on_host = [&] {
    std::vector<bool> out;
    for (const LayerState& layer : c.talk->sequence.layers)
      out.push_back(layer.kv.working_set() != nullptr);
    return out;
  };
  EXPECT_EQ(on_host(), std::vector<bool>(static_cast<std::size_t>(shape.layers)));
  const std::vector<int> answer = test::synthetic_tokens(steps, 2);
  for (int s = 0; s < steps; ++s) {
    logits.push_back(c.talk->answer(answer[s]));
    const int left = layers_on_host(thresholds, prompt + s + 1);
    for (int l = 0; l < shape.layers; ++l) {
      const auto at = static_cast<std::size_t>(l);
      ASSERT_EQ(on_host()[at], l >= shape.layers - left) << s << " " << l;
      const std::int64_t row = 2 * static_cast<std::int64_t>(
                                       c.talk->sequence.sets(l)[0].layout().row_bytes(KvRow::kKey));
      const LedgerEntry& e =
          c.talk->sequence.counters.ledger.at(static_cast<std::size_t>(s + 1), l);
      const int left_before = s == 0 ? 0 : layers_on_host(thresholds, prompt + s);
      const bool is_there = l >= shape.layers - left, was_there = l >= shape.layers - left_before;
      const std::int64_t sent = is_there ? (was_there ? 1 : prompt + s + 1) : 0;
      EXPECT_EQ(e.writeback_bytes, sent * shape.kv_heads * row) << s << " " << l;
      if (!is_there) {
        EXPECT_EQ(e.bytes(), 0);
        continue;
      }
      std::int64_t missing = 0;  // also in the step that offloads the layer
      for (std::size_t h = 0; h < static_cast<std::size_t>(shape.kv_heads); ++h) {
        const Ints &now = c.read[s][at][h], &last = c.read[s - 1][at][h];
        Ints changed;
        std::set_difference(now.begin(), now.end() - 1, last.begin(), last.end(),
                            std::back_inserter(changed));
        missing += std::ssize(changed);
      }
      EXPECT_EQ(e.kv_fetch_bytes, missing * test::fetched_row(c.talk->sequence, l))
          << s << " " << l;
    }
  }
  EXPECT_TRUE(logits == test::answers(machine, spec + ",placement=device", prompt, steps));
  EXPECT_TRUE(on_host().back());
  // A prompt longer than the thresholds begins with these layers in host memory.
  Watched later(machine, fmt::format("{},memory={}", spec, memory.bytes / 1e9));
  later.talk->turn(test::synthetic_tokens(static_cast<int>(thresholds[1]), 1));
  EXPECT_EQ(later.talk->sequence.at(0).kv.working_set(), nullptr);
  EXPECT_NE(later.talk->sequence.at(1).kv.working_set(), nullptr);
  EXPECT_NE(test::message_of([&] { test::answers(machine, spec + ",memory=0.00001", prompt, 1); },
                             ErrorKind::kMemory)
                .find("specontext: found 100 tokens before a step and 1e-05 GB of device memory, "
                      "which have room for 0 with all layers in host memory"),
            std::string::npos);
}

// With feat=prev, the first token and the current one are always read.
TEST(SpeContext, RefusesABudgetOfLessThanItAlwaysReads) {
  EXPECT_EQ(test::message_of([] { Method::parse("specontext:budget=1,feat=prev"); }),
            "method: specontext: found a budget of 1 and the first token, which feat=prev always "
            "reads, expected a larger budget");
  EXPECT_NO_THROW(Method::parse("specontext:budget=2,feat=prev"));
  EXPECT_NO_THROW(Method::parse("specontext:budget=1"));
}

TEST(SpeContext, KeepsItsStateFromTurnToTurn) {
  test::Machine machine("llama3");
  const std::vector<int> prompt = test::synthetic_tokens(kSharedPrompt, 1),
                         more = test::synthetic_tokens(40, 3),
                         answer = test::synthetic_tokens(4, 2);
  for (const std::string& head : draft_heads()) {
    const std::string spec = "specontext:budget=24," + head;
    test::Conversation turns(machine.engine, Method::parse(spec).make());
    turns.turn(prompt);
    for (const int token : answer) turns.answer(token);
    turns.turn(more);
    // All of it as one prompt: no state depends on where turns ended, but the answer's attention
    // was over some of the tokens only.
    std::vector<int> all = prompt;
    all.insert(all.end(), answer.begin(), answer.end());
    all.insert(all.end(), more.begin(), more.end());
    test::Conversation once(machine.engine, Method::parse(spec).make());
    once.turn(all);
    EXPECT_EQ(turns.sequence.retriever->key_bytes(), once.sequence.retriever->key_bytes());
    EXPECT_GT(turns.sequence.retriever->key_bytes(), 0u);
    for (const int token : answer) ASSERT_TRUE(test::all_finite(turns.answer(token)));
  }
}

TEST(SpeContext, CombinesWithEviction) {
  test::Machine machine("llama3");
  const int steps = steps_of_shared_test();
  for (const char* eviction : {"snapkv:budget=60,window=4", "adakv:budget=60,window=4",
                               "pyramidkv:budget=60,window=4", "h2o:budget=60"}) {
    const std::string spec = std::string(eviction) + "+specontext:budget=24,feat=prev";
    SCOPED_TRACE(spec);
    Watched host(machine, spec);
    const auto logits = host.run(kSharedPrompt, steps);
    for (const test::Logits& l : logits) ASSERT_TRUE(test::all_finite(l));
    EXPECT_TRUE(logits == test::answers(machine, spec + ",placement=device", kSharedPrompt, steps));
  }
  EXPECT_NE(test::message_of([&] {
              test::answers(machine, "streamingllm:budget=60,pos=shift+specontext:budget=24",
                            kSharedPrompt, 1);
            }).find("found it with a method that shifts positions"),
            std::string::npos);
}

// The default layers of hidden states are the same layer in a model of three layers.
TEST(SpeContext, RejectsADraftOfAnotherModel) {
  test::Machine machine("llama3"), other("qwen2");
  EXPECT_NE(test::message_of([&] {
              test::answers(machine,
                            "specontext:budget=24,feat=prev,head=" + kDraftFolder + "midlayer",
                            kSharedPrompt, 1);
            }).find("found no eagle_aux_hidden_state_layer_ids"),
            std::string::npos);
  EXPECT_NE(test::message_of([&] {
              test::answers(other, "specontext:budget=24,head=" + kDraftFolder + "midlayer",
                            kSharedPrompt, 1);
            }).find("found a draft for a model with hidden_size 64, expected 56"),
            std::string::npos);
}

}  // namespace
}  // namespace turnbench
