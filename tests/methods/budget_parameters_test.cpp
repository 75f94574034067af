// Budgets that layers share, and the compensated budgets of PQCache's baselines.

#include "methods/parts/budget_parameters.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "common/error.h"
#include "prescribed.h"
#include "settings.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

using namespace test;
using LayerSizes = std::vector<int>;

/// Number of tokens that each of the test layer's four layers keeps in its first set.
LayerSizes sizes(const std::string& spec, Layer& layer) {
  LayerSizes out;
  const Policies p = Method::parse(spec).make();
  const auto scoring = p.eviction->scoring_passes(2 * layer.n);
  if (scoring != nullptr) {  // of the layer's own rows
    layer.dialogue.embedding = [](int) { return std::vector<float>{1}; };
    scoring->begin(layer.dialogue);
    for (int l = 0; l < 4; ++l) scoring->score(layer.view(l), 0);
  }
  for (int l = 0; l < 4; ++l) {
    LayerView view = layer.view(l);
    view.scoring = scoring.get();
    const KeepSets kept = p.eviction->after_prefill(view);
    out.push_back(kept.keep_all() ? layer.n : static_cast<int>(kept.slots[0].size()));
  }
  return out;
}

// The tokens that every layer keeps (window, sinks, recent tokens) stay; the rest follows the
// weights. (Keyformer's budget and recent tokens include the next step's token.)
TEST(LayerBudgets, EveryEvictionMethodTakesThem) {
  Layer layer(2, 2, 16, 200, 200, 3);
  std::vector<int> tokens(200, 0);
  layer.dialogue.tokens = tokens;
  layer.dialogue.token_text = [](int) { return std::string("a"); };
  for (const char* spec :
       {"snapkv:budget=48,window=8", "chunkkv:budget=48,window=8", "sablock:budget=48,window=8",
        "streamingllm:budget=48,sinks=8", "h2o:budget=48,recent=8",
        "h2o:budget=48,mode=prefill,window=8", "keyformer:budget=49,recent=9"}) {
    EXPECT_EQ(sizes(fmt::format("{},layers=4/3/2/1", spec), layer), (LayerSizes{72, 56, 40, 24}))
        << spec;
    EXPECT_EQ(sizes(fmt::format("{},layers=1/0/0/1", spec), layer), (LayerSizes{88, 8, 8, 88}))
        << spec;
    EXPECT_EQ(sizes(fmt::format("{},layers=7/7/7/7", spec), layer), (LayerSizes{48, 48, 48, 48}))
        << spec;
  }
  EXPECT_EQ(sizes("tova:budget=41,layers=4/3/2/1", layer), (LayerSizes{65, 49, 33, 17}));
  EXPECT_EQ(sizes("epicache:budget=40,heads=uniform,layers=4/3/2/1", layer),
            (LayerSizes{64, 48, 32, 16}));
  const Policies ada = Method::parse("adakv:budget=48,window=8,layers=4/3/2/1").make();
  for (int l = 0; l < 4; ++l) {
    const auto kept = ada.eviction->after_prefill(layer.view(l)).slots;
    EXPECT_EQ(kept[0].size() + kept[1].size(), 2u * static_cast<std::size_t>(8 + 16 * (4 - l)));
  }
}

// The tokens that a method always keeps or reads must fit into a budget in tokens.  The size of a
// ratio budget depends on the prompt.
TEST(Budgets, AreRejectedIfAlwaysReadTokensFillThem) {
  const auto message = [](const std::string& spec) {
    return message_of([&] { Method::parse(spec); });
  };
  struct Case {
    const char *too_small, *message, *enough;
  };
  for (const Case& c : std::vector<Case>{
           {"oracle:budget=4", "oracle: found a budget of 4 and 32 sinks", "oracle:budget=33"},
           {"oracle:budget=8,sinks=8", "oracle: found a budget of 8 and 8 sinks",
            "oracle:budget=9,sinks=8"},
           {"pqcache:budget=32", "pqcache: found a budget of 32 and 32 sinks", "pqcache:budget=33"},
           {"sparq:budget=4,sinks=4", "sparq: found a budget of 4 and 4 sinks", "sparq:budget=1"},
           {"clusterkv:budget=16", "clusterkv: found a budget of 16 and 16 sinks",
            "clusterkv:budget=1,accounting=efficiency"},
           {"expected-attention:budget=100,sinks=200",
            "expected-attention: found a budget of 100 and 200 sinks and a window of 0",
            "expected-attention:budget=201,sinks=200"},
           {"infllm:budget=2", "infllm: found a budget of 2 and a window of 2", "infllm:budget=3"},
           {"infllm:budget=100,local=512", "infllm: found a budget of 100 and a window of 512",
            "infllm:budget=100,local=512,topk=4"},
           {"shadowkv:budget=7", "shadowkv: found a budget of 7 and chunks of 8 tokens",
            "shadowkv:budget=8"},
           {"specontext:budget=2,sinks=2", "specontext: found a budget of 2 and 2 sinks",
            "specontext:budget=3,sinks=2"},
           {"specontext-self:budget=4,sinks=4", "specontext-self: found a budget of 4 and 4 sinks",
            "specontext-self:budget=1"},
           {"streamingllm:budget=4", "streamingllm: found a budget of 4 and 4 sinks",
            "streamingllm:budget=5"},
           {"snapkv:budget=32", "snapkv: found a budget of 32 and a window of 32",
            "snapkv:budget=33"}}) {
    EXPECT_EQ(message(c.too_small), fmt::format("method: {}, expected a larger budget", c.message));
    EXPECT_EQ(message(c.enough), "no error") << c.enough;
  }
  EXPECT_EQ(message("streamingllm:budget=64,pos=shift,layers=pyramid"),
            "method: streamingllm: found pos=shift with unequal layers, expected layers=equal: the "
            "next position is the number of cached tokens, which must be the same in every layer");
  EXPECT_EQ(message("streamingllm:budget=64,pos=shift"), "no error");
  EXPECT_EQ(message("keyformer:budget=10,recent=11"),
            "method: keyformer: found a budget of 10 with 11 recent tokens, expected at least 11");
  EXPECT_EQ(message("keyformer:budget=10,recent=10"), "no error");
  for (const char* share : {"oracle:budget=0.001", "pqcache:budget=0.001", "infllm:budget=0.001",
                            "shadowkv:budget=0.001", "snapkv:budget=0.001"})
    EXPECT_EQ(message(share), "no error") << share;
}

// The pyramid is the same rule for every scorer.
TEST(LayerBudgets, APyramidOfSnapKvIsPyramidKv) {
  for (int n : {40, 100, 700}) {
    Layer layer(2, 2, 16, n, n, 3);
    for (int l = 0; l < 4; ++l) {
      for (const char* budget : {"24", "64", "0.3"}) {
        const std::string tail = fmt::format(":budget={},window=8", budget);
        EXPECT_EQ(kept("snapkv" + tail + ",layers=pyramid", layer, l),
                  kept("pyramidkv" + tail, layer, l));
        EXPECT_EQ(kept("snapkv" + tail + ",layers=pyramid/3", layer, l),
                  kept("pyramidkv" + tail + ",beta=3", layer, l));
        EXPECT_EQ(kept("adakv" + tail + ",layers=pyramid", layer, l),
                  kept("ada-pyramidkv" + tail, layer, l));
      }
    }
    const LayerSizes pyramid = sizes("streamingllm:budget=24,sinks=8,layers=pyramid", layer);
    EXPECT_EQ(pyramid[0] + pyramid[1] + pyramid[2] + pyramid[3], 96);
  }
}

/// The tokens kept in each of 32 layers, out of `held` tokens per layer (of the first layer, if all
/// are alike), for a dialogue of `prompt` tokens so far.
LayerSizes sizes_of_32(const std::string& spec, const LayerSizes& held, int prompt) {
  LayerSizes out;
  const Policies p = Method::parse(spec).make();
  std::unique_ptr<Layer> layer;
  for (int l = 0; l < 32; ++l) {
    const int n = held[l];
    if (!layer || layer->n != n) layer = std::make_unique<Layer>(1, 1, 8, n, 8, 1);
    layer->shape.layers = 32;
    layer->prompt_tokens = prompt;
    out.push_back(static_cast<int>(p.eviction->after_prefill(layer->view(l)).slots[0].size()));
  }
  return out;
}

// First example of the corrections: 8000 tokens, then 100 per turn, under recompress.  A layer's
// share does not depend on the tokens it holds, and the mean stays the budget.
TEST(LayerBudgets, LaterTurnsDoNotFlattenThePyramid) {
  for (const char* spec : {"pyramidkv:budget=128,window=8", "ada-pyramidkv:budget=128,window=8",
                           "h2o:budget=128,recent=8,layers=pyramid"}) {
    LayerSizes held(32, 8000);
    for (int turn = 0; turn < 3; ++turn) {
      const LayerSizes kept = sizes_of_32(spec, held, 8000 + 100 * turn);
      EXPECT_EQ(kept.front(), 234 + 8) << spec << ", turn " << turn;
      EXPECT_EQ(kept.back(), 6 + 8) << spec << ", turn " << turn;
      EXPECT_EQ(std::accumulate(kept.begin(), kept.end(), 0), 32 * 128) << spec << ", " << turn;
      for (std::size_t l = 0; l < 32; ++l) held[l] = kept[l] + 100;
    }
  }
}

// Second example: 20% of 1000 tokens are 200; 100 tokens later they are 220 of the 300 cached
// tokens, not 60; a layer that holds fewer tokens keeps them all.
TEST(LayerBudgets, SharesAreOfTheDialogue) {
  const std::vector<int> tokens(1100, 0);
  for (const char* spec :
       {"streamingllm:budget=0.2", "h2o:budget=0.2", "h2o:budget=0.2,mode=prefill",
        "tova:budget=0.2", "snapkv:budget=0.2", "pyramidkv:budget=0.2,beta=1",
        "adakv:budget=0.2,floor_alpha=1", "ada-pyramidkv:budget=0.2,beta=1,floor_alpha=1",
        "chunkkv:budget=0.2", "sablock:budget=0.2", "sentencekv:budget=0.1,semantic_factor=2"}) {
    for (const int held : {300, 150}) {
      Layer layer(2, 2, 16, held, held, 3);
      layer.prompt_tokens = 1100;
      layer.dialogue.tokens = tokens;
      layer.dialogue.token_text = [](int) { return std::string("a"); };
      EXPECT_EQ(sizes(spec, layer), LayerSizes(4, std::min(held, 220))) << spec;
    }
  }
  Layer layer(2, 2, 16, 300, 300, 3);
  layer.prompt_tokens = 1100;
  const LayerSizes shares = sizes("snapkv:budget=0.2,window=20,layers=4/3/2/1", layer);
  EXPECT_EQ(shares, (LayerSizes{300, 260, 180, 100}));  // 340 if the first layer had so many
}

// A layer with a small share keeps what the method always keeps.
TEST(LayerBudgets, EveryLayerKeepsSinksAndWindow) {
  Layer layer(2, 2, 16, 100, 100, 3);
  EXPECT_EQ(sizes("lagkv:budget=30,sinks=4,lag=8,layers=3/2/1/0", layer),
            (LayerSizes{56, 39, 21, 4}));
  EXPECT_EQ(sizes("expected-attention:budget=30,sinks=4,window=2,layers=3/2/1/0", layer),
            (LayerSizes{54, 38, 22, 6}));
}

// Section 13: Ada-KV's pyramid also applies to short prompts, unlike that of KVCache-Factory.
TEST(LayerBudgets, AdaKvsPyramidHasNoShortPrompts) {
  const LayerSizes held(32, 1500);
  const std::string tail = ":budget=1024,window=32,pyr_exact=false";
  const LayerSizes ada = sizes_of_32("ada-pyramidkv" + tail, held, 1500);
  EXPECT_EQ(ada.front(), 1468 + 32);
  EXPECT_EQ(ada.back(), 538 + 32);
  EXPECT_EQ(sizes_of_32("pyramidkv" + tail, held, 1500), LayerSizes(32, 1024));
}

// Every layer keeps a prompt that fits into the budget as a whole.
TEST(LayerBudgets, PromptsThatFitAreKept) {
  Layer layer(2, 2, 16, 60, 60, 3);
  const std::vector<int> tokens(60, 0);
  layer.dialogue.tokens = tokens;
  layer.dialogue.token_text = [](int) { return std::string("a"); };
  for (const MethodInfo& info : all_methods()) {
    const bool shared_by_layers =
        std::any_of(info.parameters.begin(), info.parameters.end(),
                    [](const ParameterInfo& p) { return p.kind == ParameterInfo::Kind::kLayers; });
    if (!shared_by_layers) continue;
    // The default partitions do not fit into the budget.
    const std::string more = info.name == "lagkv" ? ",sinks=2,lag=6" : "";
    const std::string spec = fmt::format("{}:budget={},layers=9/1/0/0{}", info.name,
                                         60 + test::counts_the_current(info), more);
    EXPECT_EQ(sizes(spec, layer), LayerSizes(4, 60)) << spec;
  }
}

TEST(LayerBudgets, ErrorsNameTheMistake) {
  Layer layer(1, 1, 16, 100, 100, 3);
  const auto message = [&](const std::string& spec) {
    return test::message_of([&] { kept(spec, layer); });
  };
  EXPECT_EQ(message("snapkv:budget=40,layers=3/2/1"),
            "snapkv: layers: found 3 numbers, expected the model's 4");
  EXPECT_EQ(message("h2o:layers=1/1/1/1/1"),  // also if the budget covers everything
            "h2o: layers: found 5 numbers, expected the model's 4");
  EXPECT_NE(message("chunkkv:layers=pyramid,reuse=2").find("expected layers=equal"),
            std::string::npos);
}

// n_p = 10000.
TEST(Compensation, WorkedExamples) {
  const auto tokens = [](double share, double e, LayerBudget::Compensation what) {
    const LayerBudget budget{.method = "test",
                             .mean = {true, share},
                             .rule = {},
                             .compensation = what,
                             .communication = e};
    return budget.tokens(10000);
  };
  using Compensation = LayerBudget::Compensation;
  EXPECT_EQ(tokens(1. / 5, 1. / 128, Compensation::kIndex), 2039);
  EXPECT_EQ(tokens(1. / 10, 1. / 128, Compensation::kIndex), 1039);
  EXPECT_EQ(tokens(1. / 5, 1. / 64, Compensation::kIndex), 2078);
  EXPECT_EQ(tokens(1. / 10, 1. / 64, Compensation::kIndex), 1078);
  EXPECT_EQ(tokens(1. / 5, 1. / 128, Compensation::kNone), 2000);
  // PQCache fetches 996 and 498 tokens.
  EXPECT_EQ(tokens(1. / 5, 1. / 128, Compensation::kAll), 2039 + 996);
  EXPECT_EQ(tokens(1. / 10, 1. / 64, Compensation::kAll), 1078 + 498);
}

// H2O(C) as in PQCache's code: 32 sinks, and as many heavy hitters as recent tokens.
TEST(Compensation, SinksOfH2o) {
  const auto tokens = [](Budget mean, double e) {
    using Compensation = LayerBudget::Compensation;
    const LayerBudget budget{.method = "test",
                             .mean = mean,
                             .rule = {},
                             .compensation = e > 0 ? Compensation::kIndex : Compensation::kNone,
                             .communication = e,
                             .sinks = 32};
    return budget.tokens(10000);
  };
  EXPECT_EQ(tokens({true, 1. / 5}, 1. / 128), 32 + 2 * 1016);
  EXPECT_EQ(tokens({true, 1. / 10}, 1. / 128), 1066);
  EXPECT_EQ(tokens({true, 1. / 5}, 1. / 64), 2102);
  EXPECT_EQ(tokens({true, 1. / 10}, 1. / 64), 1106);
  EXPECT_EQ(tokens({true, 1. / 5}, 0), 32 + 2 * 996) << "PQCache's but for the current token";
  EXPECT_EQ(tokens({false, 100}, 0), 100) << "a number counts the sinks";
  EXPECT_EQ(tokens({false, 100}, 1. / 128), 139);
}

// The three methods that PQCache compensates, with windows and recent tokens within B_C.
TEST(Compensation, MethodsKeepTheirCompensatedBudget) {
  Layer layer(1, 2, 16, 1000, 1000, 3);
  for (const char* method : {"snapkv", "h2o"}) {
    for (const auto& [comp, want] :
         {std::pair("none", 200), std::pair("index", 203), std::pair("all", 299)}) {
      EXPECT_EQ(sizes(fmt::format("{}:budget=1/5,comp={}", method, comp), layer),
                LayerSizes(4, want))
          << method;
    }
    EXPECT_EQ(sizes(fmt::format("{}:budget=1/5,comp=index,comm=1/64", method), layer),
              LayerSizes(4, 207));
  }
  const LayerSizes pyramid = sizes("pyramidkv:budget=1/5,comp=index", layer);
  EXPECT_EQ(pyramid[0] + pyramid[1] + pyramid[2] + pyramid[3], 4 * 203);
}

}  // namespace
}  // namespace turnbench
