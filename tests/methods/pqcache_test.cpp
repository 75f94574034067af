#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "common/error.h"
#include "methods/code_index.h"
#include "methods/method.h"
#include "methods/scores.h"
#include "tests/methods/layer.h"

namespace turnbench {
namespace {

using Ints = std::vector<std::int32_t>;

constexpr int kSets = 2, kGroup = 3, kDim = 16, kSinks = 32;

/// A layer at the first step after a prompt of n - 1 tokens.
struct Step : test::Layer {
  explicit Step(int n) : test::Layer(kSets, kGroup, kDim, n, 1, 5) { prompt_tokens = n - 1; }

  Selection select(const std::string& spec) {
    Policies p = Method::parse(spec).make();
    p.selection->after_prefill(view());
    return p.selection->select(view());
  }
};

TEST(PqCache, ReadsSinksWindowBestAndTheCurrentToken) {
  for (const auto& [spec, local, chosen] :
       std::vector<std::tuple<std::string, int, int>>{{"pqcache:budget=0.2", 96, 96},
                                                      {"pqcache:budget=0.1,local=0.25", 24, 72},
                                                      {"pqcache:budget=133", 50, 50}}) {
    const int n = 1001;
    Step step(n);
    const Selection s = step.select(spec);
    ASSERT_EQ(s.slots.size(), 2u);
    for (const Ints& list : s.slots) {
      EXPECT_EQ(list.size(), static_cast<std::size_t>(kSinks + local + chosen + 1)) << spec;
      const std::set<std::int32_t> in(list.begin(), list.end());
      for (int i = 0; i < kSinks; ++i) EXPECT_TRUE(in.contains(i));
      for (int i = n - 1 - local; i < n; ++i) EXPECT_TRUE(in.contains(i));
    }
  }
}

// Step 2 of the specification, in double precision, with the codes of the index.
TEST(PqCache, ChoosesByEstimatedScores) {
  constexpr int n = 600, kParts = 4, kBits = 5, kLocal = 28;
  Step step(n);
  const Selection got = step.select("pqcache:m=4,b=5,max_iter=7,budget=0.1");  // of 567 tokens
  const CodeIndex index(step.view(), {.parts = kParts, .bits = kBits, .iterations = 7}, kSinks);
  index.wait();
  EXPECT_LE(index.iterations(), 7);
  for (std::size_t s = 0; s < kSets; ++s) {
    const MatrixView<const float> centroids = index.centroids(s);
    ASSERT_EQ(centroids.rows, kParts << kBits);
    std::vector<double> scores(static_cast<std::size_t>(n - 1 - kLocal - kSinks));
    for (int g = 0; g < kGroup; ++g) {
      const float* q = step.queries.data() + ((n - 1) * kSets * kGroup + s * kGroup + g) * kDim;
      std::vector<double> p(scores.size());
      for (std::size_t j = 0; j < p.size(); ++j) {
        double dot = 0;
        for (int part = 0; part < kParts; ++part) {
          const float* c = centroids.row((part << kBits) + index.codes(s, part)[j]);
          for (int d = 0; d < kDim / kParts; ++d)
            dot += static_cast<double>(q[part * kDim / kParts + d]) * c[d];
        }
        p[j] = std::exp(dot / std::sqrt(kDim));
      }
      double sum = 0;
      for (double x : p) sum += x;
      for (std::size_t j = 0; j < p.size(); ++j) scores[j] += p[j] / sum;
    }
    Ints best;
    for (std::int32_t j : top_k(std::vector<float>(scores.begin(), scores.end()), kLocal))
      best.push_back(kSinks + j);
    const Ints& list = got.slots[s];
    EXPECT_EQ(Ints(list.begin() + kSinks, list.end() - kLocal - 1), best);
  }
}

// As many centroids as different keys: estimates are exact, and it chooses as exact top-k does.
TEST(PqCache, EqualsTheOracleWhereCodesAreExact) {
  constexpr int n = 500, kKeys = 16;
  Step step(n);
  std::vector<float> key(kDim);
  for (KvHeadCache& set : step.sets) {
    for (int j = kSinks; j < n; ++j) {
      set.read_key(kSinks + j % kKeys, key.data());
      set.write(j, key.data(), nullptr, nullptr);
    }
  }
  const Selection got = step.select("pqcache:b=4,max_iter=100,budget=0.2"),
                  want = step.select("oracle:norm=candidates,budget=0.2");
  // Equal keys tie: of those the lowest are taken, but for roundings between different sums.
  ASSERT_EQ(got.slots.size(), want.slots.size());
  for (std::size_t s = 0; s < kSets; ++s) EXPECT_EQ(got.slots[s], want.slots[s]);
}

TEST(PqCache, ReadsEverythingWithoutAnIndex) {
  EXPECT_TRUE(Step(kSinks + 64).select("pqcache:budget=0.1").all()) << "64 keys, 64 centroids";
  EXPECT_FALSE(Step(kSinks + 65).select("pqcache:budget=0.1").all());
}

TEST(PqCache, PartsDivideTheHead) {
  EXPECT_THROW(Step(200).select("pqcache:m=3"), Error);
}

}  // namespace
}  // namespace turnbench
