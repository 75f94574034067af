// PyramidKV, AdaKV and ChunkKV, compared with dense references and worked examples.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "common/error.h"
#include "methods/parts/budget_sharing.h"
#include "prescribed.h"
#include "settings.h"

namespace turnbench {
namespace {

using namespace test;

constexpr int kWindow = 8;

/// Pooled scores of the tokens before the window, averaged over the heads of a set.
std::vector<double> window_scores(Layer& layer, int set, int heads, int kernel) {
  auto s = summed(layer, set * heads, heads, layer.n - kWindow, layer.n - kWindow);
  for (double& x : s) x /= heads;
  return pooled(s, kernel);
}

/// Calls check(layer, n, group) for the shapes that every such method is tested on.
template <typename Check>
void for_each_shape(const Check& check) {
  std::uint64_t seed = 1;
  for (int group : {1, 4, 7}) {
    for (int head_dim : {64, 128}) {
      for (int n : {1, 63, 64, 65, 1000}) {
        Layer layer(2, group, head_dim, n, n, seed += 1000);
        check(layer, n, group);
      }
    }
  }
}

TEST(PyramidKv, EqualsTheDenseReference) {
  for_each_shape([](Layer& layer, int n, int group) {
    for (const int budget : {24, 48}) {
      const int base = budget - kWindow;
      int total = 0;
      for (int l = 0; l < 4; ++l) {
        const auto got = kept(fmt::format("pyramidkv:budget={}", budget), layer, l);
        total += static_cast<int>(got[0].size());
        if (n <= budget) {
          EXPECT_EQ(got[0].size(), static_cast<std::size_t>(n));
          continue;
        }
        // A reference: n < 2 (B - w) is SnapKV; otherwise a line from 2 base - base / 20 to base /
        // 20.
        const int m = n - kWindow;
        int high = 2 * base - base / 20, low = base / 20;
        if (high >= m) high = m, low = 2 * base - m;
        const double target = n < 2 * base ? base : high - l * (high - low) / 3.0;
        const int count = static_cast<int>(got[0].size()) - kWindow;
        EXPECT_LT(std::abs(count - target), 1) << n << " " << l;
        for (int s = 0; s < 2; ++s) {
          const auto scores = window_scores(layer, s, group, 7);
          EXPECT_TRUE(equal_by_score(got[s], and_tail(best(scores, count), m, n), scores, n));
        }
      }
      if (n > budget) {
        EXPECT_EQ(total, 4 * budget) << n;
      }
    }
  });
}

TEST(PyramidKv, UniformCasesAreSnapKv) {
  Layer layer(2, 2, 64, 300, 300, 3);
  for (int l = 0; l < 4; ++l) {
    EXPECT_EQ(kept("pyramidkv:budget=64,beta=1", layer, l),
              kept("snapkv:budget=64,window=8", layer, l));
    EXPECT_EQ(kept("pyramidkv:budget=200", layer, l), kept("snapkv:budget=200,window=8", layer, l));
  }
  EXPECT_THROW(Method::parse("pyramidkv:budget=8"), Error);
}

/// A reference of AdaKV: joint top-k, floors and largest remainders or rounding, top of each head.
std::vector<Ints> ada_reference(const std::vector<std::vector<double>>& scores, int base,
                                double alpha, bool exact) {
  std::vector<std::pair<double, std::size_t>> joint;
  for (std::size_t h = 0; h < scores.size(); ++h) {
    for (double x : scores[h]) joint.push_back({-x, h});
  }
  std::stable_sort(joint.begin(), joint.end(), [](auto& a, auto& b) { return a.first < b.first; });
  std::vector<int> wanted(scores.size(), 0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(base) * scores.size(); ++i)
    ++wanted[joint[i].second];
  std::vector<std::pair<double, std::size_t>> rest;
  std::vector<int> counts;
  int left = base * static_cast<int>(scores.size());
  for (std::size_t h = 0; h < scores.size(); ++h) {
    const double target = alpha * base + (1 - alpha) * wanted[h];
    counts.push_back(exact ? static_cast<int>(target + 1e-9)
                           : static_cast<int>(std::nearbyint((1 - alpha) * wanted[h] +
                                                             std::floor(alpha * base))));
    rest.push_back({-std::round((target - counts.back()) * 1e6), h});
    left -= counts.back();
  }
  std::stable_sort(rest.begin(), rest.end());
  for (int i = 0; exact && i < left; ++i) ++counts[rest[i].second];
  std::vector<Ints> out;
  for (std::size_t h = 0; h < scores.size(); ++h) out.push_back(best(scores[h], counts[h]));
  return out;
}

// base = 3, a = .2; the joint top-6 takes 2 and 4.
TEST(AdaKv, WorkedExample) {
  PrescribedLayer layer(
      {rows_like({.5, .3, .1, .05, .03, .02}), rows_like({.2, .19, .18, .17, .16, .1})}, 2);
  const std::string spec = "adakv:budget=4,window=1,pool=none,ada_exact=";
  EXPECT_EQ(kept(spec + "true", layer), (std::vector<Ints>{{0, 1, 6}, {0, 1, 2, 3, 6}}));
  EXPECT_EQ(kept(spec + "false", layer), (std::vector<Ints>{{0, 1, 6}, {0, 1, 2, 6}}));
  EXPECT_EQ(kept(spec + "true,floor_alpha=1", layer),
            (std::vector<Ints>{{0, 1, 2, 6}, {0, 1, 2, 6}}));
}

// The sum picks token 1, the largest 0.
TEST(SnapKv, RulesOfTheGroup) {
  PrescribedLayer layer({rows_like({.6, .4, 0}), rows_like({0, .4, .6})});
  const std::string spec = "snapkv:budget=2,window=1,pool=none,gqa_agg=";
  EXPECT_EQ(kept(spec + "sum", layer), (std::vector<Ints>{{1, 3}}));
  EXPECT_EQ(kept(spec + "mean", layer), (std::vector<Ints>{{1, 3}}));
  EXPECT_EQ(kept(spec + "max", layer), (std::vector<Ints>{{0, 3}}));
}

TEST(AdaKv, EqualsTheDenseReference) {
  for_each_shape([](Layer& layer, int n, int group) {
    const int budget = std::max(n / 3, 16), m = n - kWindow;
    for (const bool exact : {true, false}) {
      for (const bool per_head : {false, true}) {
        const auto got = kept(fmt::format("adakv:budget={},window=8,ada_exact={}{}", budget, exact,
                                          per_head ? ",gran=query_head" : ""),
                              layer);
        const int heads = per_head ? 1 : group, sets = 2 * group / heads;
        ASSERT_EQ(got.size(), static_cast<std::size_t>(sets));
        if (n <= budget) {
          for (const Ints& set : got) EXPECT_EQ(set.size(), static_cast<std::size_t>(n));
          continue;
        }
        std::vector<std::vector<double>> scores;
        for (int s = 0; s < sets; ++s) scores.push_back(window_scores(layer, s, heads, 7));
        const auto want = ada_reference(scores, budget - kWindow, 0.2, exact);
        std::size_t total = 0;
        for (std::size_t s = 0; s < got.size(); ++s) {
          total += got[s].size();
          EXPECT_TRUE(equal_by_score(got[s], and_tail(want[s], m, n), scores[s], n)) << n;
        }
        if (exact) {
          EXPECT_EQ(total, static_cast<std::size_t>(sets * budget));
        }
      }
    }
  });
}

double pooled_mass(const std::vector<Ints>& sets, Layer& layer, int group) {
  double mass = 0;
  for (std::size_t s = 0; s < sets.size(); ++s) {
    const auto scores = window_scores(layer, static_cast<int>(s), group, 7);
    for (int j : sets[s]) {
      if (j < layer.n - kWindow) mass += scores[j];
    }
  }
  return mass;
}

// a = 1 is SnapKV; for a = 0 no other shares keep more pooled mass.
TEST(AdaKv, ExtremesOfTheFloor) {
  Layer layer(4, 2, 64, 400, 400, 9);
  const auto snap = kept("snapkv:budget=64,window=8", layer);
  EXPECT_EQ(kept("adakv:budget=64,window=8,floor_alpha=1", layer), snap);
  EXPECT_EQ(kept("adakv:budget=64,window=8,skip=1", layer), snap);
  const auto free = kept("adakv:budget=64,window=8,floor_alpha=0", layer);
  EXPECT_GT(pooled_mass(free, layer, 2), pooled_mass(snap, layer, 2));
}

TEST(AdaKv, NormalizedScoresFavourConcentratedHeads) {
  Layer layer(4, 1, 64, 400, 400, 9);
  std::vector<std::vector<double>> scores;
  for (int s = 0; s < 4; ++s) {
    auto own = window_scores(layer, s, 1, 7);
    double all = 0, top = 0;
    for (double x : own) all += x;
    for (int j : best(own, 56)) top += own[j];
    for (double& x : own) x *= top / all;
    scores.push_back(own);
  }
  const auto want = ada_reference(scores, 56, 0.2, true);
  const auto got = kept("adakv:budget=64,window=8,normalize=true", layer);
  for (std::size_t s = 0; s < 4; ++s)
    EXPECT_TRUE(equal_by_score(got[s], and_tail(want[s], 392, 400), scores[s], 400));
}

TEST(AdaPyramidKv, LayerTotalsFollowThePyramid) {
  Layer layer(2, 2, 64, 500, 500, 4);
  const auto layers = pyramid_budgets(4, 56, 20, 492, true);
  for (int l = 0; l < 4; ++l) {
    const auto got = kept("ada-pyramidkv:budget=64,window=8", layer, l);
    const int base = layers[l];
    EXPECT_EQ(static_cast<int>(got[0].size() + got[1].size()), 2 * (base + kWindow));
    std::vector<std::vector<double>> scores;
    for (int s = 0; s < 2; ++s) scores.push_back(window_scores(layer, s, 2, 7));
    const auto want = ada_reference(scores, base, 0.2, true);
    for (std::size_t s = 0; s < 2; ++s)
      EXPECT_TRUE(equal_by_score(got[s], and_tail(want[s], 492, 500), scores[s], 500));
  }
}

// m = 10, c = 4, B - w = 6, chunk means .1, .3, .2 (of two tokens).
TEST(ChunkKv, WorkedExample) {
  std::vector<double> last;
  for (double mean : {.1, .1, .1, .1, .3, .3, .3, .3, .2, .2}) last.push_back(mean / 2.5);
  PrescribedLayer layer({rows_like(last)});
  EXPECT_EQ(kept("chunkkv:budget=7,window=1,chunk=4", layer)[0], (Ints{4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(kept("chunkkv:budget=8,window=1,chunk=4", layer)[0], (Ints{0, 4, 5, 6, 7, 8, 9, 10}));
}

TEST(ChunkKv, EqualsTheDenseReference) {
  for_each_shape([](Layer& layer, int n, int group) {
    const int budget = std::max(n / 3, 16), m = n - kWindow, chunk = 10;
    const auto got = kept(fmt::format("chunkkv:budget={},window=8", budget), layer);
    const auto tokens = kept(fmt::format("chunkkv:budget={},window=8,chunk=1", budget), layer);
    EXPECT_EQ(got[0], got[1]);
    if (n <= budget) {
      EXPECT_EQ(got[0].size(), static_cast<std::size_t>(n));
      return;
    }
    const auto scores = summed(layer, 0, 2 * group, m, m);
    EXPECT_TRUE(
        equal_by_score(tokens[0], and_tail(best(scores, budget - kWindow), m, n), scores, n));
    std::vector<double> means;
    for (int c = 0; c * chunk < m; ++c) {
      const int end = std::min(m, (c + 1) * chunk);
      double sum = 0;
      for (int j = c * chunk; j < end; ++j) sum += scores[j];
      means.push_back(sum / (end - c * chunk));
    }
    Ints want;
    while (static_cast<int>(want.size()) < budget - kWindow) {
      const auto c = std::max_element(means.begin(), means.end());
      const int begin = static_cast<int>(c - means.begin()) * chunk;
      for (int j = begin; j < std::min(m, begin + chunk); ++j) {
        if (static_cast<int>(want.size()) < budget - kWindow) want.push_back(j);
      }
      *c = -1;
    }
    std::sort(want.begin(), want.end());
    EXPECT_EQ(got[0], and_tail(want, m, n));
  });
}

// Followers copy their leader's choice.
TEST(ChunkKv, LayersReuseTheChoice) {
  for (int reuse : {1, 2, 4}) {
    const Policies p =
        Method::parse(fmt::format("chunkkv:budget=40,window=8,reuse={}", reuse)).make();
    std::vector<Ints> sets;
    for (int l = 0; l < 4; ++l) {
      Layer layer(2, 2, 64, 200, 200, 50 + static_cast<std::uint64_t>(l));
      sets.push_back(p.eviction->after_prefill(layer.view(l)).slots[0]);
      EXPECT_EQ(layer.stats->multiply_adds() > 0, l % reuse == 0);
      EXPECT_EQ(sets.back().size(), 40u);
    }
    for (int l = 1; l < 4; ++l) EXPECT_EQ(sets[l] == sets[l - 1], l % reuse != 0);
  }
}

/// A reference of the attention of a method's last row over its kept tokens: exact attention with a
/// dense mask.
TEST(KeptSets, AttentionOverThemEqualsTheMaskedReference) {
  std::vector<std::string> specs = {"snapkv:budget=24,window=8,gran=query_head"};
  for (const MethodInfo& info : all_methods()) {
    const Policies policies = Method::parse(std::string(info.name)).make();
    if (policies.eviction && !policies.selection && !policies.prefill &&
        !policies.has_scoring_passes())
      specs.push_back(spec_of(info, small_values(info)));
  }
  for (const std::string& spec : specs) {
    for (int n : {63, 64, 65, 300}) {
      Layer layer(2, 4, 64, n, n, 77);
      std::vector<int> tokens;
      tell(layer, tokens, {20, 50});
      const auto sets = kept(spec, layer);
      std::vector<KvHeadCache> gathered;
      gathered.reserve(sets.size());
      const std::int32_t position = n - 1;
      const int heads = 8 / static_cast<int>(sets.size());
      const std::vector<float> out = layer.attend(8 * 64, [&](float* to) {
        std::vector<AttentionJob> jobs;
        for (std::size_t s = 0; s < sets.size(); ++s) {
          auto pool = std::make_shared<KvPool>(layer.sets[0].layout(), layer.backend->memory());
          gathered.push_back(layer.sets[s * 2 / sets.size()].gathered(sets[s], pool));
          AttentionJob job;
          job.keys = &gathered.back();
          const auto at = static_cast<std::int64_t>(s) * heads * 64;
          job.q = layer.query_rows().rows_at(position, 1).columns_at(at, heads * 64);
          job.positions = &position;
          job.out = {to + at, 1, heads * 64};
          jobs.push_back(job);
        }
        return jobs;
      });
      for (int h = 0; h < 8; ++h) {
        const Ints& set = sets[h / heads];
        double mass = 0;
        std::vector<double> want(64, 0);
        for (int j : set) {
          const double p = layer.probability(h, position, j);
          mass += p;
          for (int d = 0; d < 64; ++d)
            want[d] +=
                p * static_cast<double>(layer.values[h / 4][static_cast<std::size_t>(j * 64 + d)]);
        }
        for (int d = 0; d < 64; ++d)
          EXPECT_NEAR(out[h * 64 + d], want[d] / mass, 1e-4) << spec << " " << n;
      }
    }
  }
}

}  // namespace
}  // namespace turnbench
