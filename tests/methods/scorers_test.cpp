// AdaKV, PyramidKV and ChunkKV with the scores of other methods.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>

#include "common/error.h"
#include "common/text.h"
#include "methods/parts/budgeted_eviction.h"
#include "methods/parts/eviction_scorer.h"
#include "methods/parts/layer_rows.h"
#include "methods/parts/window_settings.h"
#include "prescribed.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

using namespace test;

constexpr int kScorerWindow = 8;

/// The values of the parameter "scorer".
std::vector<std::string> registered_scorers() {
  return split(unit_or_values(scorer_parameter("")), "|");
}

/// Rows whose attention a scorer sums, from the first to the last.
int first_row(const std::string& scorer, int n) {
  return scorer == "h2o" ? 0 : scorer == "tova" ? n - 1 : n - kScorerWindow;
}

/// The setting with which the scores of a scorer are not pooled.
const char* without_pooling(const std::string& scorer) {
  return scorer == "snapkv" ? ",pool=none" : "";
}

// Without a floor, head h keeps its part of the layer's H (B - w) best tokens.
TEST(AdaKv, DividesTheJointTopKOfAnyScores) {
  for (const char* scorer : {"snapkv", "h2o", "tova"}) {
    for (const auto& [group, per_head] : {std::pair(1, false), {4, false}, {4, true}}) {
      for (int n : {63, 64, 65, 300}) {
        Layer layer(2, group, 64, n, n, 40 + static_cast<std::uint64_t>(n));
        const int budget = n / 3, m = n - kScorerWindow, heads = per_head ? 1 : group;
        const auto sets = static_cast<std::size_t>(2 * group / heads);
        const auto got =
            kept(fmt::format("adakv:scorer={},budget={},window=8,floor_alpha=0,gran={}{}", scorer,
                             budget, per_head ? "query_head" : "kv_head", without_pooling(scorer)),
                 layer);
        ASSERT_EQ(got.size(), sets);
        std::vector<double> joint;
        for (std::size_t s = 0; s < sets; ++s) {
          const auto own =
              summed(layer, static_cast<int>(s) * heads, heads, first_row(scorer, n), m);
          joint.insert(joint.end(), own.begin(), own.end());
        }
        const Ints want = best(joint, static_cast<int>(sets) * (budget - kScorerWindow));
        Ints chosen;
        for (std::size_t s = 0; s < sets; ++s) {
          for (int j : got[s]) {
            if (j < m) chosen.push_back(static_cast<int>(s) * m + j);
          }
          for (int j = m; j < n; ++j)
            EXPECT_TRUE(std::binary_search(got[s].begin(), got[s].end(), j));
        }
        EXPECT_TRUE(same_by_score(chosen, want, joint)) << scorer << " " << n << " " << group;
      }
    }
  }
}

// With a floor of the whole budget, it is the scorer's method, for each head separately.
TEST(AdaKv, FloorOfOneEqualsTheScorersMethod) {
  Layer layer(4, 2, 64, 300, 300, 9);
  const std::string ada = "adakv:budget=64,window=8,floor_alpha=1,gqa_agg=sum,scorer=";
  EXPECT_EQ(kept(ada + "snapkv", layer), kept("snapkv:budget=64,window=8,gqa_agg=sum", layer));
  EXPECT_EQ(kept(ada + "h2o", layer), kept("h2o:budget=64,mode=prefill,window=8", layer));
  EXPECT_EQ(kept(ada + "keyformer", layer), kept("keyformer:budget=65,recent=9", layer));
  Layer one(1, 2, 64, 300, 300, 9);  // TOVA has one set for all heads of a layer
  EXPECT_EQ(kept("adakv:budget=64,window=1,gqa_agg=mean,scorer=tova", one)[0],
            kept("tova:budget=64,protect_last=true", one)[0]);
}

// Statistics that a scorer does not read are not computed: the window pass of SnapKV, the second
// pass of H2O.
TEST(AdaKv, RequestsOnlyItsScorersStatistics) {
  const auto policy = [](const char* scorer) {
    return Method::parse(fmt::format("adakv:window=8,scorer={}", scorer)).make();
  };
  EXPECT_EQ(policy("snapkv").eviction->window(), 8);
  EXPECT_TRUE(policy("snapkv").eviction->columns().empty());
  EXPECT_EQ(policy("tova").eviction->window(), 1);
  EXPECT_EQ(policy("h2o").eviction->window(), 0);
  EXPECT_EQ(policy("h2o").eviction->columns(), std::vector<ColumnRule>(1));
  EXPECT_TRUE(policy("keyformer").eviction->columns()[0].gumbel);
}

// The following tests apply to every registered scorer, also to those of a program with additional
// methods.

TEST(Scorers, DefaultIsSnapKv) {
  Layer layer(2, 2, 64, 300, 300, 9);
  for (const char* method : {"adakv", "ada-pyramidkv", "pyramidkv", "chunkkv"}) {
    const std::string spec = fmt::format("{}:budget=64,window=8", method);
    EXPECT_EQ(Method::parse(spec).canonical(), Method::parse(spec + ",scorer=snapkv").canonical());
    for (const std::string& scorer : registered_scorers()) {
      if (scorer != "snapkv") {
        EXPECT_NE(kept(spec, layer), kept(spec + ",scorer=" + scorer, layer)) << spec << scorer;
      }
    }
  }
}

TEST(Scorers, BudgetsThatHoldAllKeepAll) {
  Layer layer(2, 2, 16, 60, 60, 3);
  for (const char* method : {"adakv", "ada-pyramidkv", "pyramidkv", "chunkkv"}) {
    for (const std::string& scorer : registered_scorers()) {
      for (const char* budget : {"60", "100", "100%"}) {
        const auto sets =
            kept(fmt::format("{}:scorer={},budget={},window=8", method, scorer, budget), layer);
        for (const Ints& set : sets) EXPECT_EQ(set.size(), 60u) << method << scorer << budget;
      }
    }
  }
}

// With equal budgets for layers and heads, all methods keep the best tokens of each set.
TEST(Scorers, EqualBudgetsKeepTheBestOfEachSet) {
  Layer layer(3, 2, 64, 300, 300, 9), one(1, 4, 64, 300, 300, 10);
  for (const std::string& scorer : registered_scorers()) {
    const std::string same = ":budget=64,window=8,scorer=" + scorer;
    for (const char* group : {"mean", "max", "sum"}) {
      const std::string sets = fmt::format(",gqa_agg={}", group);
      EXPECT_EQ(kept("adakv" + same + ",floor_alpha=1" + sets, layer),
                kept("pyramidkv" + same + ",beta=1" + sets, layer))
          << scorer;
      EXPECT_EQ(kept("adakv" + same + ",skip=1" + sets, layer),
                kept("pyramidkv" + same + ",beta=1" + sets, layer))
          << scorer;
    }
    EXPECT_EQ(kept("chunkkv" + same + ",chunk=1", one),
              kept("pyramidkv" + same + ",beta=1" + without_pooling(scorer), one))
        << scorer;
  }
}

TEST(Scorers, PyramidsAndChunksApplyToAnyScores) {
  for (const std::string& scorer : registered_scorers()) {
    Layer layer(2, 2, 64, 300, 300, 9);
    std::vector<std::size_t> sizes;
    for (int l : {0, 3}) {
      const auto sets = kept("pyramidkv:budget=64,window=8,beta=4,scorer=" + scorer, layer, l);
      EXPECT_EQ(sets[0].size(), sets[1].size());
      sizes.push_back(sets[0].size());
    }
    EXPECT_EQ(sizes, (std::vector<std::size_t>{8 + 56 + 42, 8 + 14})) << scorer;

    // 48 tokens before the window are six chunks of 8.
    const auto chunks = kept("chunkkv:budget=56,window=8,chunk=8,scorer=" + scorer, layer);
    EXPECT_EQ(chunks[0], chunks[1]);
    ASSERT_EQ(chunks[0].size(), 56u);
    int short_ones = 0;  // the last chunk before the window has 4 tokens
    for (std::size_t i = 0; i < 48;) {
      const int chunk = chunks[0][i] / 8;
      std::size_t tokens = 0;
      while (i < 48 && chunks[0][i] / 8 == chunk) ++i, ++tokens;
      short_ones += tokens < 8 ? 1 : 0;
    }
    EXPECT_LE(short_ones, 2) << scorer;
  }
}

struct GivenScores : EvictionScorer {
  explicit GivenScores(std::vector<float> given) : given(std::move(given)) {}
  std::vector<float> scores(const LayerView&, const KeptSet&, int) const override { return given; }
  std::vector<float> given;
};

TEST(Scorers, ScoresAreOneForEachCandidate) {
  const auto keep = [](const std::vector<float>& scores) {
    Layer layer(1, 1, 64, 20, 20, 5);
    const Parameters p = Method::parse("snapkv:budget=8,window=4").parts()[0].parameters;
    BudgetedEviction eviction({.window = budget_and_window_settings("given", p),
                               .scorer = std::make_shared<GivenScores>(scores)});
    (void)eviction.after_prefill(layer.view());
  };
  std::vector<float> scores(16, 1.0f);
  EXPECT_NO_THROW(keep(scores));
  scores[0] = std::numeric_limits<float>::infinity();
  EXPECT_NO_THROW(keep(scores));
  scores[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(
      test::message_of([&] { keep(scores); }, ErrorKind::kRuntime),
      "found a score that is NaN: the model's attention is not finite, or a scorer divides by "
      "zero");
  for (const std::size_t count : {0, 15, 17}) {
    EXPECT_EQ(
        test::message_of([&] { keep(std::vector<float>(count)); }, ErrorKind::kRuntime),
        fmt::format("layer 0, set 0: found {} scores of a scorer, expected one for each of 16 "
                    "candidates",
                    count));
  }
}

TEST(Scorers, RowsOnHostAreThoseOfTheSet) {
  Layer layer(1, 1, 64, 20, 20, 5);
  const LayerView view = layer.view();
  const auto read = [&](KvRow row, int first, int end) {
    return test::message_of([&] { RowsOnHost(view, view.sets[0], row, first, end); },
                            ErrorKind::kRuntime);
  };
  EXPECT_EQ(read(KvRow::kValue, 0, 20), "no error");
  EXPECT_EQ(read(KvRow::kValue, 0, 21),
            "layer 0: found rows of slots 0 to 21, expected them from 0 to 20");
  EXPECT_EQ(read(KvRow::kKey, -1, 3),
            "layer 0: found rows of slots -1 to 3, expected them from 0 to 20");
  EXPECT_EQ(read(KvRow::kPreRopeKey, 0, 1),
            "layer 0: found keys before RoPE in a cache that has none, expected a policy that "
            "declares pre_rope_keys");
}

// A policy requests only the statistics of its scorer.
TEST(Scorers, DeclareTheirStatistics) {
  for (const std::string& name : registered_scorers()) {
    for (const char* method : {"adakv", "pyramidkv", "chunkkv"}) {
      const Method spec = Method::parse(fmt::format("{}:window=8,scorer={}", method, name));
      const auto scorer = find_method(name, "test").scorer(spec.parts()[0].parameters);
      EXPECT_EQ(spec.policies().eviction->window(), scorer->window()) << spec.label();
      EXPECT_EQ(spec.policies().eviction->columns(), scorer->columns()) << spec.label();
    }
  }
}

}  // namespace
}  // namespace turnbench
