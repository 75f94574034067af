// The tokens that one layer selects for all later layers, compared with plain references, the
// oracle and the bytes transferred.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "common/error.h"
#include "methods/parts/scores.h"
#include "tests/inference/conversation.h"
#include "tests/methods/prescribed.h"
#include "tests/methods/shared_tokens.h"

namespace turnbench {
namespace {

using test::Ints;
using test::Lists;
using test::Watched;

constexpr int kSelfPrompt = 150;

int steps_of_self_test() {
  return test::is_emulated() ? 3 : 12;
}

TEST(SpeContextSelf, TakesTheGreatestOfAGroupAfterTheSoftmax) {
  // Heads (.6, .4, 0) and (0, .4, .6): the sum would select token 1, the maximum selects 0, which
  // ties with 2 and is the earlier one.
  test::PrescribedLayer layer({test::rows_like({.6, .4, 0}), test::rows_like({0, .4, .6})},
                              /*kv_heads=*/1, /*pass_rows=*/1);
  const auto read = [&](const std::string& settings) {
    return Method::parse("specontext-self:d=0," + settings)
        .make()
        .selection->select(layer.view())
        .slots;
  };
  EXPECT_EQ(read("budget=2"), (Lists{{0, 3}}));
  EXPECT_EQ(read("budget=3"), (Lists{{0, 2, 3}}));
  EXPECT_EQ(read("budget=1"), (Lists{{3}}));
  EXPECT_EQ(read("budget=4"), Lists{});
  EXPECT_EQ(read("budget=3,sinks=2"), (Lists{{0, 1, 3}})) << "token 1 is read, whatever it weighs";
}

TEST(SpeContextSelf, SelectsLikeAPlainReference) {
  for (const int group : {1, 4}) {
    test::Layer layer(2, group, 32, 300, 1, 3);
    for (const bool batch : {false, true}) {
      const Policies p = Method::parse(fmt::format("specontext-self:d=0,budget=40,level={}",
                                                   batch ? "batch" : "head"))
                             .make();
      const Selection got = p.selection->select(layer.view());
      ASSERT_EQ(got.slots.size(), 2u);
      for (int s = 0; s < 2; ++s) {
        const int first = batch ? 0 : s * group, heads = batch ? 2 * group : group;
        std::vector<double> scores(300, 0.0);
        for (int h = first; h < first + heads; ++h) {
          for (int j = 0; j < 299; ++j) {
            double& score = scores[j];
            score = std::max(score, layer.probability(h, 299, j));
          }
        }
        scores[299] = 1e9;
        const Ints want = test::best(scores, 40);
        EXPECT_TRUE(test::same_by_score(got.slots[s], want, scores)) << group << " " << batch;
      }
      if (batch) {
        EXPECT_EQ(got.slots[0], got.slots[1]);
      }
    }
  }
}

TEST(SpeContextSelf, AllLaterLayersReadTheSame) {
  test::Machine machine("llama3");
  const int layers = machine.engine.shape().layers, steps = steps_of_self_test();
  for (const int d : {0, 1}) {
    for (const char* placement : {"device", "host"}) {
      Watched c(machine, fmt::format("specontext-self:budget=24,d={},placement={}", d, placement));
      c.run(kSelfPrompt, steps);
      ASSERT_EQ(c.read.size(), static_cast<std::size_t>(steps));
      for (std::size_t s = 0; s < c.read.size(); ++s) {
        ASSERT_EQ(c.read[s].size(), static_cast<std::size_t>(layers));
        for (int l = 0; l < layers; ++l) {
          const Lists& lists = c.read[s][l];
          EXPECT_EQ(lists, l < d ? Lists{} : c.read[s][d]);
          for (const Ints& list : lists) {
            EXPECT_EQ(list.size(), 24u);
            EXPECT_EQ(list.back(), kSelfPrompt + static_cast<int>(s));
          }
        }
      }
      EXPECT_NE(c.read[0].back(), c.read[1].back());
    }
  }
}

// -1 is a quarter of the layers, rounded up, but at most the last one.
TEST(SpeContextSelf, LayersUpToTheSelectingOneStayOnTheDevice) {
  const auto everything = [](int layers, int layer, const std::string& settings) {
    const Policies p = Method::parse("specontext-self:budget=64" + settings).make();
    return p.selection
        ->demand({.shape = {layers, 8, 2, 16},
                  .layer = layer,
                  .sets = 2,
                  .tokens = 500,
                  .prompt_tokens = 500},
                 nullptr)
        .everything;
  };
  for (int layer = 0; layer < 9; ++layer) {
    EXPECT_EQ(everything(9, layer, ""), layer <= 3);
    EXPECT_EQ(everything(9, layer, ",d=0"), layer == 0);
    EXPECT_EQ(everything(9, layer, ",d=8"), true);
  }
  EXPECT_TRUE(everything(1, 0, ""));
  try {
    everything(9, 0, ",d=9");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInput);
    EXPECT_STREQ(e.what(), "specontext-self: d: found 9, expected a layer of the model, 0 to 8");
  }
}

TEST(SpeContextSelf, EqualsFullAttentionWithinItsBudget) {
  test::Machine machine("llama3");
  const int steps = steps_of_self_test();
  const auto full = test::answers(machine, "full", kSelfPrompt, steps);
  const std::string budget = std::to_string(kSelfPrompt + steps);
  for (const char* placement : {"device", "host"}) {
    const std::string spec = "specontext-self:d=0,budget=" + budget + ",placement=" + placement;
    EXPECT_TRUE(test::answers(machine, spec, kSelfPrompt, steps) == full);
  }
}

/// Selects separately in each layer by the maximum over a group: no sinks, no local tokens.
struct GreatestOfGroup : SelectionPolicy {
  explicit GreatestOfGroup(int budget) : budget(budget) {}
  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<GreatestOfGroup>(*this);
  }
  SelectionTraits traits() const override { return {.window = 1}; }
  Selection select(const LayerView& view) override {
    const HeadScores& attention = view.stats.window_mass(1);
    const int heads = view.heads_per_set();
    Selection out;
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      const int n = view.sets[s].size();
      std::vector<float> scores =
          group_scores(attention, static_cast<int>(s) * heads, heads, n, GroupRule::kMax);
      scores.back() = 2;
      out.slots.push_back(top_k(scores, budget));
    }
    return out;
  }
  int budget;
};

// A model of one layer has no later layers.
TEST(SpeContextSelf, EqualsTheOracleInAModelOfOneLayer) {
  const int steps = steps_of_self_test();
  for (const char* name : {"llama2", "llama3"}) {
    const std::unique_ptr<Backend> backend = test::make_backend(2);
    const Model model(test::small_checkpoint(name, 1), *backend, DType::kF32, Math::kF32);
    Engine engine(model, *backend, {});
    ASSERT_EQ(engine.shape().layers, 1);
    const auto answer_of = [&](Policies policies) {
      return test::answers(engine, std::move(policies), kSelfPrompt, steps);
    };
    const auto got = answer_of(Method::parse("specontext-self:d=0,budget=24").make());
    Policies greatest;
    greatest.selection = std::make_unique<GreatestOfGroup>(24);
    EXPECT_TRUE(got == answer_of(std::move(greatest))) << name;
    if (engine.shape().group() > 1) continue;  // its oracle sums over the group
    EXPECT_TRUE(got == answer_of(Method::parse("oracle:budget=23,sinks=0,local=0").make()));
  }
}

// A step loads the tokens that the last step did not read, except for the current token, whose row
// is on the device.
TEST(SpeContextSelf, LoadsTokensThatThePreviousStepDidNotRead) {
  test::Machine machine("llama3");
  const int steps = steps_of_self_test();
  Watched host(machine, "specontext-self:budget=24,d=0");
  const auto logits = host.run(kSelfPrompt, steps);
  EXPECT_TRUE(logits == test::answers(machine, "specontext-self:budget=24,d=0,placement=device",
                                      kSelfPrompt, steps));
  EXPECT_EQ(host.talk->sequence.at(0).kv.working_set(), nullptr);
  test::expect_elastic_loads(host, 1, 24);
}

// With an eviction, a layer reads those of the selected tokens that it has kept, also if each query
// head has a separate set.
TEST(SpeContextSelf, CombinesWithEviction) {
  test::Machine machine("llama3");
  const int steps = steps_of_self_test();
  for (const char* eviction :
       {"snapkv:budget=60,window=4", "pyramidkv:budget=60,window=4", "adakv:budget=60,window=4",
        "h2o:budget=60", "chunkkv:budget=60", "snapkv:budget=60,window=4,gran=query_head",
        "streamingllm:budget=60,pos=shift"}) {
    for (const char* level : {"head", "batch"}) {
      const std::string spec =
          fmt::format("{}+specontext-self:budget=24,d=0,level={}", eviction, level);
      SCOPED_TRACE(spec);
      Watched host(machine, spec);
      const auto logits = host.run(kSelfPrompt, steps);
      for (const test::Logits& l : logits) ASSERT_TRUE(test::all_finite(l));
      EXPECT_TRUE(logits == test::answers(machine, spec + ",placement=device", kSelfPrompt, steps));
      EXPECT_FALSE(host.read.back().front().empty());
      for (const Lists& lists : host.read.back()) {
        for (const Ints& list : lists) EXPECT_LE(list.size(), 24u);
      }
    }
  }
}

}  // namespace
}  // namespace turnbench
