#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "common/error.h"
#include "methods/method.h"
#include "methods/parts/key_clusters.h"
#include "methods/parts/kmeans.h"
#include "methods/parts/scores.h"
#include "tests/inference/conversation.h"
#include "tests/inference/set_rows.h"
#include "tests/methods/layer.h"

namespace turnbench {
namespace {

using Ints = std::vector<std::int32_t>;

constexpr int kSets = 2, kGroup = 3, kDim = 16, kSinks = 16, kLayer = 2;

/// A layer that receives its tokens in parts: a prompt, then steps.
struct Steps : test::Layer {
  explicit Steps(int n) : test::Layer(kSets, kGroup, kDim, n, 1, 5), all(sets) {}

  LayerView at(int tokens, int answered, int layer = kLayer) {
    for (std::size_t s = 0; s < sets.size(); ++s) {
      sets[s] = all[s];
      sets[s].truncate(tokens);
    }
    prompt_tokens = tokens - answered;
    generated = answered;
    return view(layer);
  }

  /// The selection of the first step after a prompt.
  Selection first_step(const std::string& spec, int layer = kLayer) {
    Policies p = Method::parse(spec).make();
    p.selection->after_prefill(at(n - 1, 0, layer));
    return p.selection->select(at(n, 1, layer));
  }

  double score(int head, std::span<const double> key) const {
    const float* q = queries.data() + ((n - 1) * shape.heads + head) * kDim;
    return std::inner_product(q, q + kDim, key.begin(), 0.0);
  }
  std::vector<double> key(int set, int slot) const {
    const float* k = keys[set].data() + slot * kDim;
    return {k, k + kDim};
  }

  std::vector<KvHeadCache> all;
};

struct Cluster {
  std::vector<double> centroid;
  Ints slots;
};

double cosine(std::span<const double> a, std::span<const double> b) {
  const auto dot = [](auto x, auto y) {
    return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
  };
  return dot(a, b) / std::sqrt(dot(a, a) * dot(b, b));
}

/// Clusters of slots [begin, end), as in the paper's section III-B, in double precision.
std::vector<Cluster> clusters_of(const Steps& layer, int set, int begin, int end, int count,
                                 int iterations) {
  Random random = Random::from(
      {layer.dialogue.seed, seed_of("clusterkv"), kLayer, static_cast<std::uint64_t>(begin)});
  std::vector<Cluster> out;
  for (const std::int32_t row : draw_rows(random, end - begin, count))
    out.push_back({layer.key(set, begin + row), {}});
  for (int i = 0; i <= iterations; ++i) {
    for (Cluster& c : out) c.slots.clear();
    for (int slot = begin; slot < end; ++slot) {
      Cluster* nearest = nullptr;
      double best = -2;
      for (Cluster& c : out) {
        const double x = cosine(layer.key(set, slot), c.centroid);
        if (x > best) nearest = &c;
        best = std::max(best, x);
      }
      nearest->slots.push_back(slot);
    }
    if (i == iterations) break;
    for (Cluster& c : out) {
      if (c.slots.empty()) continue;
      std::vector<double> sum(kDim);
      for (const int slot : c.slots) {
        const std::vector<double> key = layer.key(set, slot);
        for (std::size_t d = 0; d < sum.size(); ++d) sum[d] += key[d];
      }
      for (double& x : sum) x /= static_cast<double>(c.slots.size());
      c.centroid = sum;
    }
  }
  return out;
}

/// Sinks, `chosen` tokens of the best clusters, and the tokens from `tail` on.
Ints best_of(const Steps& layer, int head, std::vector<Cluster> clusters, std::size_t chosen,
             int tail, int n) {
  std::stable_sort(clusters.begin(), clusters.end(), [&](const Cluster& a, const Cluster& b) {
    return layer.score(head, a.centroid) > layer.score(head, b.centroid);
  });
  Ints out;
  for (const Cluster& c : clusters) {
    for (const int slot : c.slots) {
      if (out.size() < chosen) out.push_back(slot);
    }
  }
  for (int slot = 0; slot < kSinks; ++slot) out.push_back(slot);
  for (int slot = tail; slot < n; ++slot) out.push_back(slot);
  std::sort(out.begin(), out.end());
  return out;
}

void append(std::vector<Cluster>& to, const std::vector<Cluster>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

TEST(ClusterKv, ReadsTheClustersOfAPlainReference) {
  constexpr int n = 901, kPrompt = n - 1;  // ceil(884 / 80) = 12 clusters
  Steps layer(n);
  for (const auto& [spec, chosen] : std::vector<std::pair<std::string, std::size_t>>{
           {"clusterkv:budget=200", 184},
           {"clusterkv:budget=0.1", 74},
           {"clusterkv:budget=200,accounting=efficiency", 199}}) {
    const Selection got = layer.first_step(spec);
    ASSERT_EQ(got.slots.size(), static_cast<std::size_t>(kSets * kGroup)) << spec;
    for (int head = 0; head < kSets * kGroup; ++head) {
      const auto clusters = clusters_of(layer, head / kGroup, kSinks, kPrompt, 12, 20);
      EXPECT_EQ(got.slots[head], best_of(layer, head, clusters, chosen, kPrompt, n))
          << spec << ", head " << head;
    }
  }
}

// As many clusters as keys, with a different direction for each key: exact top-k of each query
// head.
TEST(ClusterKv, EqualsTopKWhereEachTokenIsACluster) {
  constexpr int n = 301, kChosen = 48;
  Steps layer(n);
  const Selection got = layer.first_step("clusterkv:nlist=100000,budget=64");
  for (int head = 0; head < kSets * kGroup; ++head) {
    std::vector<double> scores;
    for (int slot = kSinks; slot < n - 1; ++slot)
      scores.push_back(layer.score(head, layer.key(head / kGroup, slot)));
    Ints want;
    for (const std::int32_t j : test::best(scores, kChosen)) want.push_back(kSinks + j);
    const Ints& list = got.slots[head];
    EXPECT_EQ(Ints(list.begin() + kSinks, list.end() - 1), want) << "head " << head;
    EXPECT_EQ(list.back(), n - 1);
  }
}

// Clusters of 3, 4 and 5 tokens in the order of their scores, 5 of which are read.
TEST(ClusterKv, CutsTheLastCluster) {
  const Ints kinds = {2, 1, 0, 2, 1, 2, 0, 1, 2, 0, 2, 1};  // of the tokens after the sinks
  const int n = kSinks + static_cast<int>(kinds.size()) + 1;
  Steps layer(n);
  for (KvHeadCache& set : layer.all) {
    for (int j = kSinks; j < n - 1; ++j) {
      std::vector<float> key(kDim);
      const std::int32_t kind = kinds[j - kSinks];
      key[kind] = static_cast<float>(3 - kind);
      test::write_rows(set, j, key.data(), nullptr, nullptr);
    }
  }
  std::fill(layer.queries.begin(), layer.queries.end(), 1.0f);
  // Clusters begin with a token of each kind.
  for (std::set<std::int32_t> drawn; drawn.size() < 3; ++layer.dialogue.seed) {
    drawn.clear();
    Random random = Random::from({layer.dialogue.seed, seed_of("clusterkv"), kLayer, kSinks});
    for (const std::int32_t row : draw_rows(random, std::ssize(kinds), 3)) drawn.insert(kinds[row]);
    if (drawn.size() == 3) break;
  }
  const Selection got = layer.first_step("clusterkv:nlist=3,budget=21");
  ASSERT_EQ(got.slots.size(), static_cast<std::size_t>(kSets * kGroup));
  for (const Ints& list : got.slots) {
    const Ints chosen(list.begin() + kSinks, list.end() - 1);
    EXPECT_EQ(chosen, (Ints{17, 18, 20, 22, 25}))
        << "kind 0 at 18, 22, 25; of kind 1 the first two";
  }
}

TEST(ClusterKv, ReadsEverythingWithinTheBudgetAndInTheFirstLayers) {
  EXPECT_TRUE(Steps(101).first_step("clusterkv:budget=100").all());
  EXPECT_FALSE(Steps(102).first_step("clusterkv:budget=100").all());
  EXPECT_TRUE(Steps(102).first_step("clusterkv:budget=100", 1).all());
  EXPECT_FALSE(Steps(102).first_step("clusterkv:budget=100,dense_layers=1", 1).all());
  EXPECT_TRUE(Steps(11).first_step("clusterkv:budget=0.1").all()) << "sinks alone";
}

TEST(ClusterKv, EachTokenIsInOneCluster) {
  Steps layer(500);
  const LayerView view = layer.at(500, 0);
  const std::vector<KeyClusters::Part> parts = {{{16, 500}, 7}, {{300, 300}, 0}};
  const KeyClusters clusters(view, parts, {.iterations = 5, .random = Random(3)});
  clusters.wait();
  EXPECT_EQ(clusters.tokens(0), 484);
  EXPECT_EQ(clusters.tokens(1), 0);
  EXPECT_EQ(clusters.centroids().rows, 7);
  EXPECT_EQ(clusters.clusters_before(1), 7);
  Ints slots;
  for (std::int32_t c = 0; c < 7; ++c) {
    const auto members = clusters.members(0, c);
    EXPECT_TRUE(std::is_sorted(members.begin(), members.end()));
    slots.insert(slots.end(), members.begin(), members.end());
  }
  std::sort(slots.begin(), slots.end());
  Ints want(484);
  std::iota(want.begin(), want.end(), 16);
  EXPECT_EQ(slots, want);
}

// Tokens of an answer are read until a group is complete; then they are clustered like the others.
// A later turn clusters all new tokens as one batch.
TEST(ClusterKv, ClustersAnswersAndLaterTurns) {
  constexpr int kPrompt = 400, kWindow = 6, kSteps = 20, kSecond = 560, kChosen = 34;
  Steps layer(kSecond + 3);
  Policies p = Method::parse("clusterkv:budget=50,window=6,window_clusters=2").make();
  p.selection->after_prefill(layer.at(kPrompt, 0));
  const auto check = [&](const Selection& got, const std::vector<std::vector<Cluster>>& clusters,
                         int tail, int n) {
    for (int head = 0; head < kSets * kGroup; ++head) {
      EXPECT_EQ(got.slots[head], best_of(layer, head, clusters[head / kGroup], kChosen, tail, n))
          << "head " << head << " of " << n << " tokens";
    }
  };
  std::vector<std::vector<Cluster>> prompt, all;
  for (int s = 0; s < kSets; ++s)
    prompt.push_back(clusters_of(layer, s, kSinks, kPrompt, 5, 20));  // ceil(384 / 80)
  all = prompt;
  int clustered = kPrompt;
  std::unique_ptr<SelectionPolicy> fork;
  for (int step = 1; step <= kSteps; ++step) {
    const int n = kPrompt + step;
    if (n - 1 - clustered == kWindow) {
      for (int s = 0; s < kSets; ++s)
        append(all[s], clusters_of(layer, s, clustered, clustered + kWindow, 2, 20));
      clustered += kWindow;
    }
    check(p.selection->select(layer.at(n, step)), all, clustered, n);
    const auto pinned = p.selection->pinned(kLayer, 0, n);
    ASSERT_EQ(pinned.size(), 2u);
    EXPECT_LE(pinned[1].begin, clustered);
    EXPECT_GE(pinned[1].begin, n - kWindow);
    EXPECT_EQ(pinned[1].end, n);
    if (step == 10) fork = p.selection->clone();
  }
  EXPECT_EQ(clustered, kPrompt + 18);
  // Tokens that the original clustered after the fork do not belong to the fork.
  check(fork->select(layer.at(kPrompt + kSteps, kSteps)), all, clustered, kPrompt + kSteps);

  for (int s = 0; s < kSets; ++s)
    append(prompt[s], clusters_of(layer, s, kPrompt, kSecond, 2, 20));  // ceil(160 / 80)
  p.selection->after_prefill(layer.at(kSecond, 0));
  check(p.selection->select(layer.at(kSecond + 1, 1)), prompt, kSecond, kSecond + 1);
  // A sequence that starts from the complete dialogue clusters it as one batch.
  Policies other = Method::parse("clusterkv:budget=50,window=6,window_clusters=2").make();
  layer.memo = {};
  other.selection->after_prefill(layer.at(kSecond, 0));
  std::vector<std::vector<Cluster>> anew;
  for (int s = 0; s < kSets; ++s)
    anew.push_back(clusters_of(layer, s, kSinks, kSecond, 7, 20));  // ceil(544 / 80)
  check(other.selection->select(layer.at(kSecond + 1, 1)), anew, kSecond, kSecond + 1);
}

// A prompt within the budget is clustered when the answer exceeds it.
TEST(ClusterKv, SelectsInALongAnswerAfterAShortPrompt) {
  constexpr int kPrompt = 40, kBudget = 50, kWindow = 6, kSteps = 60;
  Steps layer(kPrompt + kSteps);
  const std::string spec = "clusterkv:budget=50,window=6,window_clusters=2";
  Policies p = Method::parse(spec).make(),
           unclustered = Method::parse("clusterkv:budget=50,window=0").make();
  p.selection->after_prefill(layer.at(kPrompt, 0));
  unclustered.selection->after_prefill(layer.at(kPrompt, 0));
  std::vector<std::vector<Cluster>> clusters;
  for (int s = 0; s < kSets; ++s)
    clusters.push_back(clusters_of(layer, s, kSinks, kPrompt, 1, 20));  // ceil(24 / 80)
  int clustered = kPrompt;
  layer.memo = {};
  for (int step = 1; step <= kSteps; ++step) {
    const int n = kPrompt + step;
    LayerView view = layer.at(n, step);
    view.memo = nullptr;  // as in the steps of the engine
    if (n - 1 - clustered == kWindow) {
      for (int s = 0; s < kSets; ++s)
        append(clusters[s], clusters_of(layer, s, clustered, clustered + kWindow, 2, 20));
      clustered += kWindow;
    }
    EXPECT_TRUE(unclustered.selection->select(view).all())
        << "none of the answer is ever clustered";
    const Selection got = p.selection->select(view);
    if (clustered <= kBudget) {
      EXPECT_TRUE(got.all()) << n;
      EXPECT_LE(n, kBudget + kWindow);
      continue;
    }
    ASSERT_FALSE(got.all()) << n;
    for (int head = 0; head < kSets * kGroup; ++head) {
      const Ints& slots = got.slots[head];
      EXPECT_LE(slots.size(), static_cast<std::size_t>(kBudget + kWindow));
      EXPECT_EQ(slots,
                best_of(layer, head, clusters[head / kGroup], kBudget - kSinks, clustered, n))
          << "head " << head << " of " << n << " tokens";
    }
  }
}

// The same with the engine, whose steps share nothing: one policy, its forks, both placements.
TEST(ClusterKv, ForksOfAShortPromptSelectAlike) {
  test::Machine machine("llama3");
  const int steps = test::is_emulated() ? 6 : 40;
  const std::string spec =
      "clusterkv:budget=40,sinks=2,cluster_tokens=8,dense_layers=0,window=4,placement=";
  test::Conversation host(machine.engine, Method::parse(spec + "host").make()),
      device(machine.engine, Method::parse(spec + "device").make());
  const std::vector<int> prompt = test::synthetic_tokens(38, 1);
  EXPECT_EQ(host.turn(prompt), device.turn(prompt));
  test::Conversation fork = device.fork();
  for (const int token : test::synthetic_tokens(steps, 2)) {
    const test::Logits want = device.answer(token);
    EXPECT_EQ(host.answer(token), want);
    EXPECT_EQ(fork.answer(token), want);
  }
  if (!test::is_emulated()) {
    EXPECT_LT(device.sequence.counters.mean_attended(), 38 + (steps + 1) / 2.0) << "of all tokens";
  }
}

/// An answer's logits.
std::vector<test::Logits> answer_of(test::Conversation& c, int prompt, int steps) {
  std::vector<test::Logits> out = {c.turn(test::synthetic_tokens(prompt, 1))};
  for (const int token : test::synthetic_tokens(steps, 2)) out.push_back(c.answer(token));
  return out;
}

// Each query head keeps the tokens of its last step on the device, and fetches the others.
TEST(ClusterKv, WorkingSetsFetchTokensThatThePreviousStepDidNotRead) {
  test::Machine machine("llama3");
  const ModelShape& shape = machine.engine.shape();
  const int steps = test::is_emulated() ? 3 : 20;
  const std::string spec = "clusterkv:budget=40,cluster_tokens=8,dense_layers=1,window=8";
  test::Conversation host(machine.engine, Method::parse(spec).make()),
      device(machine.engine, Method::parse(spec + ",placement=device").make());
  EXPECT_TRUE(answer_of(host, 200, steps) == answer_of(device, 200, steps));
  EXPECT_EQ(device.sequence.counters.ledger.total().bytes(), 0);
  EXPECT_EQ(host.sequence.at(0).kv.working_set(), nullptr);
  const Ledger& ledger = host.sequence.counters.ledger;
  const std::int64_t row =
      2 * static_cast<std::int64_t>(host.sequence.sets(1)[0].layout().row_bytes(KvRow::kKey));
  ASSERT_EQ(ledger.steps(), static_cast<std::size_t>(steps + 1));
  for (int l = 1; l < shape.layers; ++l) {
    const Residency::Options& options = host.sequence.at(l).kv.working_set()->options();
    EXPECT_TRUE(options.per_list);
    EXPECT_EQ(options.cache_tokens, 40 - kSinks);
    EXPECT_EQ(options.pinned_tokens, kSinks + 8);
    std::int64_t hits = 0;
    for (int s = 1; s <= steps; ++s) {
      const LedgerEntry& e = ledger.at(static_cast<std::size_t>(s), l);
      hits += e.hits;
      EXPECT_LE(e.hits + e.misses, shape.heads * (40 - kSinks));
      if (s <= 8) {  // no token of the answer is in a cluster
        EXPECT_EQ(e.hits + e.misses, shape.heads * (40 - kSinks)) << s;
      }
      EXPECT_EQ(e.kv_fetch_bytes, e.misses * row) << s;
      EXPECT_EQ(e.index_bytes, 0);
    }
    EXPECT_EQ(ledger.at(1, l).hits, 0);
    EXPECT_GT(hits, 0);
  }
}

// Seven query heads of a set together read more tokens than the set has room for answers.
TEST(ClusterKv, EachHeadsCacheHasRoomForItsTokens) {
  if (test::is_emulated()) GTEST_SKIP() << "long";
  test::Machine machine("qwen2");
  const std::string spec = "clusterkv:budget=716,cluster_tokens=8,dense_layers=0";
  test::Conversation host(machine.engine, Method::parse(spec).make()),
      device(machine.engine, Method::parse(spec + ",placement=device").make());
  EXPECT_TRUE(answer_of(host, 760, 2) == answer_of(device, 760, 2));
  EXPECT_EQ(host.sequence.at(0).kv.working_set()->options().cache_tokens, 716 - kSinks);
}

// An answer that is never clustered has all its tokens on the device.
TEST(ClusterKv, AnswersGrowOnTheDevice) {
  if (test::is_emulated()) GTEST_SKIP() << "long";
  test::Machine machine("qwen2");
  const std::string spec = "clusterkv:budget=40,cluster_tokens=8,dense_layers=0,window=0";
  test::Conversation host(machine.engine, Method::parse(spec).make()),
      device(machine.engine, Method::parse(spec + ",placement=device").make());
  EXPECT_TRUE(answer_of(host, 100, 1100) == answer_of(device, 100, 1100));
  EXPECT_GE(host.sequence.at(0).kv.working_set()->options().pinned_tokens, kSinks + 1100);
}

TEST(ClusterKv, CombinesWithEvictionAtThePromptsEnd) {
  test::Machine machine("llama3");
  const int steps = test::is_emulated() ? 2 : 12;
  for (const char* spec : {"snapkv:budget=120+clusterkv:budget=40,cluster_tokens=8,dense_layers=0",
                           "adakv:budget=120+clusterkv:budget=40,cluster_tokens=8,dense_layers=0,"
                           "window=0"}) {
    test::Conversation c(machine.engine, Method::parse(spec).make());
    for (int turn = 0; turn < 2; ++turn) {
      for (const test::Logits& logits : answer_of(c, 150, steps))
        ASSERT_TRUE(test::all_finite(logits)) << spec;
    }
  }
  test::Conversation evicts(
      machine.engine,
      Method::parse("h2o:budget=60+clusterkv:budget=40,cluster_tokens=8,dense_layers=0").make());
  EXPECT_THROW(answer_of(evicts, 150, 3), Error);
}

}  // namespace
}  // namespace turnbench
