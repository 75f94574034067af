#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "common/error.h"
#include "methods/method.h"
#include "methods/parts/layer_codes.h"
#include "methods/parts/scores.h"
#include "tests/inference/set_rows.h"
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
  const CodeIndex index(step.view(), {.parts = kParts, .bits = kBits, .iterations = 7},
                        std::vector<int>(kSets, kSinks));
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

// As many centroids as different keys: estimates are exact, and the selection is exact top-k.
TEST(PqCache, EqualsTheOracleWhereCodesAreExact) {
  constexpr int n = 500, kKeys = 16;
  Step step(n);
  std::vector<float> key(kDim);
  for (KvHeadCache& set : step.sets) {
    for (int j = kSinks; j < n; ++j) {
      test::read_row(set, KvRow::kKey, kSinks + j % kKeys, key.data());
      test::write_rows(set, j, key.data(), nullptr, nullptr);
    }
  }
  const Selection got = step.select("pqcache:b=4,max_iter=100,budget=0.2"),
                  want = step.select("oracle:norm=candidates,budget=0.2");
  // Equal keys tie: the lowest positions are taken, except for rounding differences between sums.
  ASSERT_EQ(got.slots.size(), want.slots.size());
  for (std::size_t s = 0; s < kSets; ++s) EXPECT_EQ(got.slots[s], want.slots[s]);
}

TEST(PqCache, ReadsEverythingWithoutAnIndex) {
  EXPECT_TRUE(Step(kSinks + 64).select("pqcache:budget=0.1").all()) << "64 keys, 64 centroids";
  EXPECT_FALSE(Step(kSinks + 65).select("pqcache:budget=0.1").all());
}

/// The layer as it was with only its first `n` tokens.
LayerView view_of_first(Step& step, std::vector<KvHeadCache>& sets, int n) {
  sets = step.sets;
  for (KvHeadCache& set : sets) set.truncate(n);
  LayerView out = step.view();
  out.sets = sets;
  return out;
}

// A cache that is kept: the second prompt's tokens get codes from the codebooks of the first, or
// from a separate codebook; earlier codes do not change.
TEST(PqCache, ContinuesInLaterTurns) {
  constexpr int kFirst = 300, kAnswered = 310, n = 600;
  Step step(n);
  std::vector<KvHeadCache> sets;
  const auto selections = [&](const std::string& spec) {
    Policies p = Method::parse(spec + ",b=4,max_iter=20,budget=0.2").make();
    step.memo = {};
    p.selection->after_prefill(view_of_first(step, sets, kFirst));
    p.selection->select(view_of_first(step, sets, kAnswered));
    step.memo = {};
    p.selection->after_prefill(step.view());
    return p.selection->select(step.view()).slots;
  };
  const auto anew = selections("pqcache:mt=reprefill"), extended = selections("pqcache:mt=extend"),
             per_turn = selections("pqcache:mt=perturn");
  EXPECT_EQ(anew, step.select("pqcache:b=4,max_iter=20,budget=0.2").slots) << "nothing is kept";
  EXPECT_NE(extended, anew);
  EXPECT_NE(per_turn, anew);
  EXPECT_NE(per_turn, extended);
  for (const auto& lists : {extended, per_turn}) {
    for (std::size_t s = 0; s < kSets; ++s) EXPECT_EQ(lists[s].size(), anew[s].size());
  }
}

// Several codebooks: a token's code is from its codebook, and the token's score is the sum for this
// codebook.
TEST(PqCache, ScoresByTheCodebookOfEachTurn) {
  constexpr int kFirst = 200, n = 400, kParts = 2, kBits = 3;
  Step step(n);
  std::vector<KvHeadCache> sets;
  LayerCodes codes({.parts = kParts, .bits = kBits});
  codes.add_book(view_of_first(step, sets, kFirst), 9, std::vector<int>(kSets, kSinks));
  step.memo = {};
  const std::vector<int> answered(kSets, kFirst + 20), all(kSets, n);
  codes.code_until(step.view(), answered);
  codes.add_book(step.view(), 9, answered);
  codes.code_until(step.view(), all);
  CodeBuffer buffer;
  codes.copy_to(buffer, step.backend->memory());
  const CodeSettings settings{.parts = kParts, .bits = kBits, .iterations = 9};
  const CodeIndex first(view_of_first(step, sets, kFirst), settings,
                        std::vector<int>(kSets, kSinks));
  const CodeIndex second(step.view(), settings, answered);
  first.wait();
  second.wait();
  for (std::size_t s = 0; s < kSets; ++s) {
    std::vector<float> scores(n - kSinks), key(kDim);
    Buffer on_device(scores.size() * sizeof(float), step.backend->memory());
    const MatrixView<const float> q(step.queries.data(), 1, kDim);
    std::vector<CodeScoreJob> jobs;
    codes.add_score_jobs(step.view(), s, step.query_rows().rows_at(0, 1).columns_at(0, kDim),
                         buffer, {on_device.as<float>(), 1, n - kSinks}, jobs);
    EXPECT_EQ(jobs.size(), 2u);
    step.backend->score_codes(1, jobs);
    step.backend->memory()->copy_floats(on_device.as<float>(), scores.data(), scores.size());
    for (int slot = kSinks; slot < n; ++slot) {
      const bool in_first = slot < answered[s];
      const MatrixView<const float> book = (in_first ? first : second).centroids(s);
      test::read_row(step.sets[s], KvRow::kKey, slot, key.data());
      double want = 0;
      for (int part = 0; part < kParts; ++part) {
        double nearest = 1e30, product = 0;
        for (int c = 0; c < 1 << kBits; ++c) {
          const float* centroid = book.row((part << kBits) + c);
          double distance = 0, dot = 0;
          for (int d = 0; d < kDim / kParts; ++d) {
            const int at = part * kDim / kParts + d;
            const double difference = static_cast<double>(key[at]) - centroid[d];
            distance += difference * difference;
            dot += static_cast<double>(q.data[at]) * centroid[d];
          }
          if (distance < nearest) {
            nearest = distance;
            product = dot;
          }
        }
        want += product;
      }
      EXPECT_NEAR(scores[slot - kSinks], want, 1e-4) << slot;
    }
  }
}

TEST(PqCache, PartsDivideTheHead) {
  EXPECT_THROW(Step(200).select("pqcache:m=3"), Error);
}

}  // namespace
}  // namespace turnbench
