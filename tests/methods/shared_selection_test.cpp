// Methods whose layers share selections (omnikv, kascade-decode), compared with their official
// code: the tokens that constructed layers read.  The golden files name repository and commit;
// tests/golden/make_{omnikv,kascade}_golden.py wrote them.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/file.h"
#include "methods/actions/anchor_search.h"
#include "methods/model_check.h"
#include "methods/parts/anchor_map.h"
#include "methods/parts/scores.h"
#include "tests/message_of.h"
#include "tests/methods/made_steps.h"
#include "tests/methods/shared_tokens.h"
#include "tests/temporary_directory.h"

namespace turnbench {
namespace {

using test::golden_of;
using test::Ints;
using test::Lists;
using test::MadeSteps;
using test::Watched;

TEST(OmniKv, SelectsLikeTheOfficialCode) {
  for (const Json& c : golden_of("omnikv")["cases"]) {
    MadeSteps layer(c);
    const int budget = c["budget"], prompt = c["prompt"];
    // Layer 0 is the filter, and layer 1 reads its tokens.
    const auto policy = layer.policy(fmt::format("omnikv:budget={},filters=0,wait=0,score={}",
                                                 budget, c["score"].get<std::string>()),
                                     0);
    policy->after_prefill(layer.view(1));
    for (const Json& tokens : c["tokens"]) {
      SCOPED_TRACE(fmt::format("seed {}, {} tokens", c["seed"].dump(), layer.n));
      layer.step();
      EXPECT_TRUE(policy->select(layer.view(0)).all()) << "a filter reads all tokens";
      const Ints want = with_tail(tokens.get<Ints>(), prompt, layer.n);
      for (const Ints& list : policy->select(layer.view(1)).slots) EXPECT_EQ(list, want);
    }
  }
}

// The layers whose cache the official code leaves whole, and the filters of the others.
TEST(OmniKv, LayersHaveTheRolesOfTheOfficialCode) {
  for (const Json& c : golden_of("omnikv")["roles"]) {
    const auto filters = c["filters"].get<Ints>();
    const int layers = c["layers"];
    const std::string spec = fmt::format("omnikv:budget=8,filters={},wait={}",
                                         fmt::join(filters, "/"), c["wait"].dump());
    SCOPED_TRACE(spec);
    const Policies policies = Method::parse(spec).make();
    const auto reads_all = c["reads_all"].get<Ints>();
    const ModelShape shape{layers, 4, 2, 16};
    for (int l = 0; l < layers; ++l) {
      const PromptSize size{
          .shape = shape, .layer = l, .sets = 2, .tokens = 50, .prompt_tokens = 50};
      EXPECT_EQ(policies.selection->demand(size, nullptr).everything,
                std::find(reads_all.begin(), reads_all.end(), l) != reads_all.end())
          << l;
    }
    // A selection is known to the layers that read it as soon as their filter has selected.
    Ints sources(static_cast<std::size_t>(layers), -1);
    for (const Json& pair : c["sources"]) sources[pair[0]] = pair[1];
    const auto* ahead = capability<SelectsAhead>(policies.selection.get());
    ASSERT_NE(ahead, nullptr);
    for (int l = -1; l < layers; ++l) {
      const LayerRange known = ahead->known_after(l, shape);
      for (int later = 0; later < layers; ++later) {
        const bool reads = l >= 0 && sources[later] == l;
        EXPECT_EQ(later >= known.begin && later < known.end, reads) << l << " " << later;
      }
    }
  }
}

TEST(OmniKv, FiltersAreAtTheSameDepthsOfAllModels) {
  const Policies policies = Method::parse("omnikv:budget=8,wait=0").make();
  const auto sparse = [&](int layers) {
    Ints out;
    for (int l = 0; l < layers; ++l) {
      const PromptSize size{
          .shape = {layers, 4, 2, 16}, .layer = l, .sets = 2, .tokens = 50, .prompt_tokens = 50};
      if (!policies.selection->demand(size, nullptr).everything) out.push_back(l);
    }
    return out;
  };
  EXPECT_EQ(sparse(32).front(), 3);
  EXPECT_EQ(sparse(32).size(), 32u - 3 - 2);  // 0, 1 and the filters 2, 8 and 18
  EXPECT_EQ(sparse(24), (Ints{2,  3,  4,  5,  7,  8,  9,  10, 11, 12,
                              14, 15, 16, 17, 18, 19, 20, 21, 22, 23}));  // filters 1, 6 and 13
  EXPECT_EQ(sparse(12), (Ints{4, 5, 6, 7, 8, 9, 10, 11}));                // one filter: 3
}

/// A file with the anchors and heads of a case.
std::string map_file(const test::TemporaryDirectory& folder, const Json& c,
                     std::string_view heads) {
  const AnchorMap map{.anchors = c["anchors"].get<std::vector<int>>(),
                      .heads = c[heads].get<std::vector<std::vector<int>>>()};
  return folder.write("anchors.json", map.text());
}

// Each layer has its own queries, keys and values.
TEST(KascadeDecode, ReadsLikeTheOfficialCode) {
  const test::TemporaryDirectory folder;
  for (const Json& c : golden_of("kascade")["cases"]) {
    const int layers = c["layers"], sets = c["sets"], steps = c["steps"];
    std::deque<MadeSteps> made;
    for (int l = 0; l < layers; ++l) {
      Json of_layer = c;
      of_layer["seed"] = c["seed"].get<int>() + l;
      made.emplace_back(of_layer).shape.layers = layers;
    }
    const auto anchors = c["anchors"].get<Ints>();
    const std::string map = map_file(folder, c, "map");
    for (int step = 0; step < steps; ++step) {
      const int n = c["prompt"].get<int>() + step + 1, percent = c["percent"],
                budget = std::min(std::max(128, percent * n / 100), n);
      SCOPED_TRACE(fmt::format("seed {}, {} tokens", c["seed"].dump(), n));
      const auto policy =
          made[0].policy(fmt::format("kascade-decode:budget={},map={}", budget, map), 0);
      std::size_t anchor = 0;
      for (int l = 0; l < layers; ++l) {
        MadeSteps& layer = made[l];
        layer.step();
        const Selection got = policy->select(layer.view(l));
        if (l > 0 && anchor + 1 < anchors.size() && anchors[anchor + 1] == l) ++anchor;
        if (l == 0 || n <= budget) {
          EXPECT_TRUE(got.all());
        } else {
          const bool own = anchors[anchor] == l;
          for (int s = 0; s < sets; ++s) {
            const int from = own ? s : c["map"][l][s].get<int>();
            auto want = c["tokens"][step][anchor][from].get<Ints>();  // the best first
            if (std::find(want.begin(), want.end(), n - 1) == want.end())
              want.back() = n - 1;  // the current token is always read here
            std::sort(want.begin(), want.end());
            EXPECT_EQ(got.slots[s], want) << "layer " << l << ", KV head " << s;
          }
        }
        // The official output, if it reads the same tokens.
        bool same = true;
        for (const Json& list : c["tokens"][step][anchor])
          same &= l == 0 || std::find(list.begin(), list.end(), n - 1) != list.end();
        if (!same) continue;
        const std::vector<double> sums = layer.sums_of(got);
        for (std::size_t h = 0; h < sums.size(); ++h)
          EXPECT_NEAR(sums[h], c["sums"][step][l][h].get<double>(), 2e-4) << l << " " << h;
      }
    }
  }
}

TEST(KascadeDecode, RefusesMapsThatDoNotFit) {
  const test::TemporaryDirectory folder;
  const std::string path = folder.path("map.json");
  const auto check = [&](const std::string& text, int layers = 2, int kv_heads = 2) {
    folder.write("map.json", text);
    AnchorMap::load(path).check_shape(layers, kv_heads);
  };
  const auto message = [&](const std::string& text, int layers = 2, int kv_heads = 2) {
    return test::message_of([&] { check(text, layers, kv_heads); });
  };
  const std::string heads = R"("heads": [[0, 1], [1, 1]])";
  EXPECT_NO_THROW(check(R"({"anchors": [0, 1], )" + heads + "}"));
  EXPECT_EQ(message(R"({"anchors": [0], )" + heads + "}", 3),
            path + ": /heads: found 2 layers, expected the model's 3");
  EXPECT_EQ(message(R"({"anchors": [0], )" + heads + "}", 2, 3),
            path + ": /heads/0: found 2 heads, expected the model's 3 KV heads");
  EXPECT_EQ(message(R"({"anchors": [1], )" + heads + "}"),
            path + ": /anchors/0: found 1, expected 0, the first layer");
  for (const char* text :
       {R"({"anchors": [0, 2], "heads": [[0], [0]]})",
        R"({"anchors": [0, 0], "heads": [[0], [0]]})", R"({"anchors": [], "heads": [[0]]})",
        R"({"anchors": [0], "heads": [[0, 2]]})", R"({"anchors": [0], "heads": [[]]})",
        R"({"anchors": [0]})", R"([])", R"({"anchors": [0], "heads": [[0]], "more": 1})"}) {
    EXPECT_NE(message(text), "no error") << text;
  }
}

TEST(KascadeDecode, RefusesLayersThatTheModelLacks) {
  const ModelConfig config = test::small_checkpoint("llama3", 3).config;
  for (const char* method : {"kascade-decode:anchors", "omnikv:filters"}) {
    const auto check = [&](const std::string& layers) {
      check_model(Method::parse(fmt::format("{}={}", method, layers)), config);
    };
    const auto message = [&](const std::string& layers) {
      return test::message_of([&] { check(layers); });
    };
    EXPECT_NO_THROW(check("0/2"));
    EXPECT_NE(message("0/3").find("found layer 3, expected layers of the model, 0 to 2"),
              std::string::npos);
    for (const char* wrong : {"1/1", "2/1", "-1", "x", "", "1/", "1/2.5", "4294967296"})
      EXPECT_NE(message(wrong).find("expected auto or ascending layers"), std::string::npos)
          << wrong;
  }
}

// Layers between anchors read what the anchor reads.
TEST(SharedSelection, LayersReadTheTokensOfTheirSource) {
  test::Machine machine("llama3");
  const int steps = test::is_emulated() ? 2 : 8;
  for (const char* placement : {"device", "host"}) {
    for (const char* spec :
         {"kascade-decode:budget=24,anchors=0", "omnikv:budget=24,filters=0,wait=0",
          "omnikv:budget=24,filters=0,wait=0,level=head", "kascade-decode:budget=24,anchors=0/1"}) {
      SCOPED_TRACE(fmt::format("{} {}", spec, placement));
      const bool first = std::string(spec).find("s=0/1") == std::string::npos;
      Watched c(machine, fmt::format("{},placement={}", spec, placement));
      const auto logits = c.run(150, steps);
      for (const std::vector<Lists>& read : c.read) {
        EXPECT_TRUE(read.front().empty());
        EXPECT_FALSE(read.back().empty());
        for (std::size_t l = 2; l < read.size() && first; ++l) EXPECT_EQ(read[l], read[1]);
      }
      EXPECT_TRUE(logits ==
                  test::answers(machine, std::string(spec) + ",placement=device", 150, steps));
    }
  }
}

// With all tokens of the prompt, both are full attention.
TEST(SharedSelection, EqualsFullAttentionWithinItsBudget) {
  test::Machine machine("llama3");
  const int steps = test::is_emulated() ? 2 : 8;
  const auto full = test::answers(machine, "full", 150, steps);
  for (const char* placement : {"device", "host"}) {
    for (const char* spec :
         {"kascade-decode:anchors=0,budget=160", "omnikv:filters=0,wait=0,budget=150"}) {
      EXPECT_TRUE(test::answers(machine, fmt::format("{},placement={}", spec, placement), 150,
                                steps) == full)
          << spec;
    }
  }
}

/// Selects separately in each layer but the first, by the sum over a group.
struct SumOfGroup : SelectionPolicy {
  explicit SumOfGroup(int budget) : budget(budget) {}
  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<SumOfGroup>(*this);
  }
  SelectionTraits traits() const override { return {.window = 1}; }
  Selection select(const LayerView& view) override {
    Selection out;
    if (view.layer == 0) return out;
    const HeadScores& attention = view.stats.window_mass(1);
    const int heads = view.heads_per_set();
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      const int n = view.sets[s].size();
      std::vector<float> scores =
          group_scores(attention, static_cast<int>(s) * heads, heads, n, GroupRule::kSum);
      scores.back() = 1e9f;
      out.slots.push_back(top_k(scores, budget));
    }
    return out;
  }
  int budget;
};

TEST(KascadeDecode, WithAllLayersAsAnchorsEachLayerSelects) {
  test::Machine machine("llama3");
  const int steps = test::is_emulated() ? 2 : 8;
  Policies sums;
  sums.selection = std::make_unique<SumOfGroup>(24);
  EXPECT_TRUE(test::answers(machine, "kascade-decode:budget=24,anchors=0/1/2", 150, steps) ==
              test::answers(machine.engine, std::move(sums), 150, steps));
}

/// The attention of a calibration case, as tests/golden/make_kascade_golden.py draws it.
std::vector<PromptAttention> made_attention(const Json& c) {
  Random random = Random::from({c["seed"].get<std::uint64_t>()});
  const int layers = c["layers"], heads = c["heads"], rows = c["rows"], tokens = c["tokens"];
  const auto draw = [&] {
    std::vector<std::vector<double>> out(static_cast<std::size_t>(rows));
    for (std::vector<double>& row : out) {
      for (int t = 0; t < tokens; ++t)
        row.push_back(static_cast<double>(random.between(0, 1 << 20)));
    }
    return out;
  };
  std::vector<PromptAttention> out;
  for (int p = 0; p < c["prompts"].get<int>(); ++p) {
    PromptAttention& prompt = out.emplace_back();
    prompt.importance = c["importance"].get<std::vector<double>>();
    const auto common = draw();
    for (int l = 0; l < layers; ++l) {
      std::vector<HeadAttention>& of_layer = prompt.layers.emplace_back();
      for (int h = 0; h < heads; ++h) {
        const auto own = draw();
        const auto mix = static_cast<double>(random.between(0, 4));
        HeadAttention& head = of_layer.emplace_back();
        for (std::size_t r = 0; r < own.size(); ++r) {
          std::vector<float>& row = head.rows.emplace_back();
          for (std::size_t t = 0; t < own[r].size(); ++t) {
            row.push_back(static_cast<float>(common[r][t] * mix + own[r][t] * (4 - mix)) / 1024);
          }
        }
      }
    }
  }
  return out;
}

TEST(AnchorSearch, EqualsTheOfficialCode) {
  for (const Json& c : golden_of("kascade")["calibrations"]) {
    AnchorSearch search;
    for (const PromptAttention& prompt : made_attention(c)) search.add(prompt, c["k"]);
    const auto similar = search.similarity();
    for (std::size_t a = 0; a < similar.size(); ++a) {
      for (std::size_t b = 0; b < similar.size(); ++b)
        EXPECT_NEAR(similar[a][b], c["similarity"][a][b].get<double>(), 1e-5) << a << " " << b;
    }
    for (std::size_t i = 0; i < c["counts"].size(); ++i) {
      const AnchorMap got = search.find(c["counts"][i]);
      EXPECT_EQ(got.anchors, c["found"][i]["anchors"].get<std::vector<int>>());
      EXPECT_EQ(got.heads, c["found"][i]["heads"].get<std::vector<std::vector<int>>>());
    }
  }
}

}  // namespace
}  // namespace turnbench
