// LoopServe's progressive decoding, compared with worked examples and a reference in double
// precision.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "prescribed.h"
#include "tests/inference/conversation.h"

namespace turnbench {
namespace {

using namespace test;

/// The steps at which a new selection is made: the list is not the last one plus the new token.
Ints steps_of(const std::string& spec, int steps, int first) {
  const Policies p = Method::parse(spec).make();
  Layer start(1, 2, 16, 200, 200, 4);
  p.selection->after_prefill(start.view());
  Ints out, last;
  for (int o = 1; o < steps; ++o) {
    Layer layer(1, 2, 16, 200 + o, 40, 4);
    layer.generated = o;
    const Selection s = p.selection->select(layer.view());
    if (s.all()) {
      EXPECT_LT(o, first);
      continue;
    }
    last.push_back(200 + o - 1);
    if (s.slots[0] != last) out.push_back(o);
    last = s.slots[0];
    EXPECT_EQ(last.back(), 200 + o - 1) << "the current token is read";
  }
  return out;
}

// Section 8: selections for n_d = 32 and 100 outputs; the first 16 steps are dense.  With first=0
// the first list exists before the first step.
TEST(LoopServeDecode, SelectsAtTheTriggers) {
  EXPECT_EQ(steps_of("loopserve-decode:budget=64,n_d=32", 100, 16), (Ints{16, 48, 80}));
  EXPECT_EQ(steps_of("loopserve-decode:budget=64,n_d=16", 64, 16), (Ints{16, 32, 48}));
  EXPECT_EQ(steps_of("loopserve-decode:budget=64,n_d=16,first=0", 64, 0), (Ints{1, 16, 32, 48}));
}

// A ratio budget refers to the prompt's tokens, also when the answer has grown.
TEST(LoopServeDecode, SharesAreOfThePrompt) {
  const Policies p = Method::parse("loopserve-decode:budget=20%,n_d=4,first=4").make();
  Layer start(1, 2, 16, 100, 100, 4);
  p.selection->after_prefill(start.view());
  for (int o = 1; o <= 60; ++o) {
    Layer layer(1, 2, 16, 100 + o, 40, 4);
    layer.generated = o;
    layer.prompt_tokens = 100;
    const Selection s = p.selection->select(layer.view());
    if (o < 4) continue;
    for (const Ints& slots : s.slots) EXPECT_EQ(std::ssize(slots), 20 + o % 4) << o;
  }
}

// Section 8: n = 6, B = 3, n_d = 1; the observed token is always read.
TEST(LoopServeDecode, WorkedExample) {
  PrescribedLayer layer({rows_like({.5, .1, .2, .05, .1})});
  layer.generated = 16;
  const auto read = [&](const char* settings) {
    const Policies p = Method::parse(fmt::format("loopserve-decode:budget=3,{}", settings)).make();
    p.selection->after_prefill(layer.view());
    return p.selection->select(layer.view()).slots;
  };
  EXPECT_EQ(read("n_d=1"), (std::vector<Ints>{{0, 2, 5}}));
  // Two observed rows: both tokens are read, or only the current one.
  EXPECT_EQ(read("n_d=2"), (std::vector<Ints>{{0, 4, 5}}));
  EXPECT_EQ(read("n_d=2,force_obs=false"), (std::vector<Ints>{{0, 2, 5}}));
}

// Equation 7 applies to each head; the group's sum .55, .60, .30, .25, .20 would select other
// tokens.
TEST(LoopServeDecode, HeadsSelectForThemselves) {
  PrescribedLayer layer({rows_like({.5, .1, .2, .05, .1}), rows_like({.05, .5, .1, .2, .1})});
  layer.generated = 16;
  const auto read = [&](const std::string& gran) {
    const Policies p = Method::parse("loopserve-decode:budget=3,n_d=1" + gran).make();
    p.selection->after_prefill(layer.view());
    return p.selection->select(layer.view()).slots;
  };
  const std::vector<Ints> by_head = {{0, 2, 5}, {1, 3, 5}};
  EXPECT_EQ(read(""), by_head);
  EXPECT_EQ(read(",gran=query_head"), by_head);
  EXPECT_EQ(read(",gran=kv_head"), (std::vector<Ints>{{0, 1, 5}}));
}

/// Scores of the tokens before the last `rows` tokens by these rows, summed over some heads; the
/// last tokens have the highest priority.
std::vector<double> scores_of(Layer& layer, int first_head, int heads, int rows) {
  std::vector<double> out = summed(layer, first_head, heads, layer.n - rows, layer.n - rows);
  out.resize(static_cast<std::size_t>(layer.n), 1e9);
  return out;
}

TEST(LoopServeDecode, EqualsTheDenseReference) {
  for (int group : {1, 4, 7}) {
    for (const bool by_head : {true, false}) {
      Layer layer(2, group, 64, 300, 20, 17);
      layer.generated = 16;
      const Policies p = Method::parse(fmt::format("loopserve-decode:budget=80,n_d=16,gran={}",
                                                   by_head ? "query_head" : "kv_head"))
                             .make();
      Layer prompt(2, group, 64, 284, 284, 17);
      p.selection->after_prefill(prompt.view());
      const Selection got = p.selection->select(layer.view());
      const int heads = by_head ? 1 : group;
      ASSERT_EQ(got.slots.size(), static_cast<std::size_t>(2 * group / heads));
      for (int i = 0; i < 2 * group / heads; ++i) {
        const std::vector<double> scores = scores_of(layer, i * heads, heads, 16);
        EXPECT_TRUE(same_by_score(got.slots[i], best(scores, 80), scores));
      }
    }
  }
}

// The other interpretation of the printed trigger: with no token generated, the prompt's last rows
// select. Steps before the next selection read that list and the tokens generated since.
TEST(LoopServeDecode, FirstZeroSelectsAtThePromptsEnd) {
  const Policies p = Method::parse("loopserve-decode:budget=80,n_d=4,first=0").make();
  Layer prompt(2, 3, 64, 284, 284, 17);
  p.selection->after_prefill(prompt.view());
  for (int o = 1; o <= 4; ++o) {
    Layer layer(2, 3, 64, 284 + o, 20, 17);
    layer.generated = o;
    const Selection got = p.selection->select(layer.view());
    ASSERT_EQ(got.slots.size(), 6u);
    for (int h = 0; h < 6; ++h) {
      SCOPED_TRACE(fmt::format("step {}, head {}", o, h));
      Layer& chosen_by = o < 4 ? prompt : layer;
      const std::vector<double> scores = scores_of(chosen_by, h, 1, 4);
      Ints list = got.slots[h];
      if (o < 4) {
        ASSERT_EQ(list.size(), static_cast<std::size_t>(80 + o));
        for (int j = o - 1; j >= 0; --j) {
          EXPECT_EQ(list.back(), 284 + j);
          list.pop_back();
        }
      }
      EXPECT_TRUE(same_by_score(list, best(scores, 80), scores));
    }
  }
}

// In a cache that loses a token at each step, the selected slots contain other tokens.
TEST(LoopServeDecode, SelectsAgainAfterEvictions) {
  const Policies p = Method::parse("loopserve-decode:budget=80,n_d=16").make();
  Layer prompt(2, 3, 64, 300, 300, 17);
  p.selection->after_prefill(prompt.view());
  for (int o : {16, 17, 18}) {
    Layer layer(2, 3, 64, 300, 20, 17 + static_cast<std::uint64_t>(o));
    layer.generated = o;
    const Selection got = p.selection->select(layer.view());
    for (int h = 0; h < 6; ++h) {
      const std::vector<double> scores = scores_of(layer, h, 1, 16);
      EXPECT_TRUE(same_by_score(got.slots[h], best(scores, 80), scores))
          << "step " << o << ", head " << h;
    }
  }
}

TEST(LoopServeDecode, FollowsEvictionsWhileDecoding) {
  Machine machine("llama3");
  for (const char* eviction :
       {"streamingllm:budget=24", "streamingllm:budget=24,pos=shift", "tova:budget=24",
        "h2o:budget=24", "adakv:budget=24,window=4", "snapkv:budget=24,window=4,gran=query_head"}) {
    for (const char* first : {"0", "1"}) {
      const std::string spec =
          fmt::format("{}+loopserve-decode:budget=12,n_d=4,first={}", eviction, first);
      SCOPED_TRACE(spec);
      Conversation c(machine.engine, Method::parse(spec).make());
      c.turn(synthetic_tokens(100, 1));
      for (int token : synthetic_tokens(12, 2)) EXPECT_TRUE(all_finite(c.answer(token)));
    }
  }
}

// Keys and values in host memory, before and after the first selection: the same bits.
TEST(LoopServeDecode, GivesTheSameFromHostMemory) {
  Machine machine("llama3");
  for (const char* gran : {"query_head", "kv_head"}) {
    const std::string spec = fmt::format("loopserve-decode:budget=12,first=3,n_d=2,gran={}", gran);
    Conversation device(machine.engine, Method::parse(spec).make()),
        host(machine.engine, Method::parse(spec + ",placement=host").make());
    EXPECT_TRUE(host.turn(synthetic_tokens(40, 1)) == device.turn(synthetic_tokens(40, 1)));
    for (const int token : synthetic_tokens(8, 2))
      EXPECT_TRUE(host.answer(token) == device.answer(token)) << gran;
    EXPECT_GT(host.sequence.counters.ledger.total().kv_fetch_bytes, 0);
  }
}

TEST(LoopServeDecode, BudgetRules) {
  EXPECT_THROW(Method::parse("loopserve-decode:budget=16"), Error);
  EXPECT_THROW(Method::parse("loopserve-decode:budget=1,force_obs=false"), Error);
  EXPECT_NO_THROW(Method::parse("loopserve-decode:budget=16,force_obs=false"));
  for (const char* first : {"0", "16"}) {
    const Policies p =
        Method::parse(fmt::format("loopserve-decode:budget=1000,first={}", first)).make();
    Layer prompt(1, 1, 8, 50, 50, 1);
    p.selection->after_prefill(prompt.view());
    for (int o : {16, 17}) {
      Layer layer(1, 1, 8, 50 + o, 17, 1);
      layer.generated = o;
      EXPECT_TRUE(p.selection->select(layer.view()).all()) << "the budget holds everything";
    }
  }
}

}  // namespace
}  // namespace turnbench
