// Selection methods, compared with their official code: the tokens read of constructed layers and
// the attention over them.  The files name repository and commit;
// tests/golden/make_METHOD_golden.py wrote those of quest and sparq.  PQCache's code ran in 32 bits
// and without its errors: k-means gets all keys after the sinks, a token leaves the local window
// before the current one replaces it, the block cache is empty at first and is filled in order.
// ClusterKV's kernels ran as C++, with a stable sort of tokens by cluster and clusters in the order
// of their scores; steps that cluster an answer are excluded.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "inference/kv/residency.h"
#include "methods/parts/scores.h"
#include "tests/methods/made_steps.h"

namespace turnbench {
namespace {

using Ints = std::vector<std::int32_t>;
using test::golden_of;
using test::MadeSteps;

TEST(SelectionGolden, Quest) {
  const Json golden = golden_of("quest");
  for (const Json& c : golden["cases"]) {
    MadeSteps layer(c);
    const int page = c["page"], budget = c["budget"];
    const auto policy = layer.policy(
        fmt::format("quest:budget={},page={},last={}", budget, page, c["last"].get<std::string>()));
    for (std::size_t step = 0; step < c["pages"].size(); ++step) {
      SCOPED_TRACE(fmt::format("seed {}, step {}", c["seed"].dump(), step));
      layer.step();
      const Selection got = policy->select(layer.view(3));
      const Json& pages = c["pages"][step];
      if (layer.n <= budget && std::ssize(pages[0]) * page < layer.n) {
        // Here a budget of all tokens reads all of them; the official code reads as many pages as
        // the budget fills.
        EXPECT_TRUE(got.all());
        continue;
      }
      const std::vector<double> sums = layer.sums_of(got);
      for (std::size_t h = 0; h < sums.size(); ++h) {
        Ints want;
        for (const std::int32_t p : pages[h].get<Ints>()) {
          for (int j = p * page; j < std::min(layer.n, (p + 1) * page); ++j) want.push_back(j);
        }
        if (want.back() == layer.n - 1) {
          EXPECT_NEAR(sums[h], c["sums"][step][h].get<double>(), 1e-4) << h;
        } else {
          want.push_back(layer.n - 1);  // here it is read even if its page is not
        }
        EXPECT_EQ(got.all() ? all_slots(layer.n) : got.slots[h], want) << h;
      }
    }
  }
}

// With sinks as in PQCache's copy.
TEST(SelectionGolden, SparQ) {
  const Json golden = golden_of("sparq");
  for (const Json& c : golden["cases"]) {
    MadeSteps layer(c);
    const int sinks = c["sinks"];
    const auto policy = layer.policy(fmt::format(
        "sparq:budget={},sinks={},local={},r={},mean_v={}", c["budget"].get<int>() + sinks, sinks,
        sinks > 0 ? 0.5 : 0.25, c["r"].get<int>(), c["mean_v"].get<bool>() ? "on" : "off"));
    for (std::size_t step = 0; step < c["tokens"].size(); ++step) {
      SCOPED_TRACE(fmt::format("seed {}, step {}", c["seed"].dump(), step));
      layer.step();
      const Selection got = policy->select(layer.view(3));
      const std::vector<double> sums = layer.sums_of(got);
      for (std::size_t h = 0; h < sums.size(); ++h)
        EXPECT_NEAR(sums[h], c["sums"][step][h].get<double>(), 1e-4) << h;
      for (std::size_t s = 0; s < layer.sets.size(); ++s) {
        EXPECT_EQ(got.all() ? all_slots(layer.n) : got.slots[s], c["tokens"][step][s].get<Ints>())
            << s;
      }
    }
  }
}

// Also the hits of the block cache.
TEST(SelectionGolden, PqCache) {
  const Json golden = golden_of("pqcache");
  for (const Json& c : golden["cases"]) {
    MadeSteps layer(c);
    const auto policy = layer.policy(fmt::format(
        "pqcache:budget={},sinks={},m={},b={},max_iter={}", c["budget"].get<double>(),
        c["sinks"].get<int>(), c["m"].get<int>(), c["b"].get<int>(), c["max_iter"].get<int>()));
    const auto sets = static_cast<int>(layer.sets.size());
    const DeviceNeeds needs = demand_at(*policy, layer.view(3));
    const auto residency = Residency::make({.rule = Residency::Rule::kLfu,
                                            .sets = sets,
                                            .block = c["block"],
                                            .first = needs.first,
                                            .cache_tokens = c["cache_tokens"],
                                            .pinned_tokens = needs.pinned_tokens,
                                            .step_tokens = needs.step_tokens,
                                            .insert_blocks = c["insert_blocks"]});
    std::int64_t hits = 0;
    for (std::size_t step = 0; step < c["tokens"].size(); ++step) {
      SCOPED_TRACE(fmt::format("seed {}, step {}", c["seed"].dump(), step));
      layer.step();
      const Selection got = policy->select(layer.view(3));
      const std::vector<SlotRange> pinned = policy->pinned(3, 0, layer.n);
      ASSERT_EQ(pinned.size(), 2u);
      for (int s = 0; s < sets; ++s) {
        Ints want = all_slots(pinned[0].end);
        const auto best = c["tokens"][step][s].get<Ints>();
        want.insert(want.end(), best.begin(), best.end());
        EXPECT_EQ(got.slots[s], with_tail(std::move(want), pinned[1].begin, layer.n)) << s;
        residency->pin(s, pinned);
      }
      const std::vector<double> sums = layer.sums_of(got);
      for (std::size_t h = 0; h < sums.size(); ++h)
        EXPECT_NEAR(sums[h], c["sums"][step][h].get<double>(), 1e-4) << h;
      const Ints on_host(layer.sets.size(), layer.n);
      const Residency::Step read = residency->step(got.slots, on_host);
      EXPECT_EQ(read.hits, c["hits"][step].get<std::int64_t>());
      hits += read.hits;
    }
    EXPECT_GT(hits, 0);
  }
}

TEST(SelectionGolden, ClusterKv) {
  constexpr int kLayer = 2;  // of the script; here it draws the first centroids
  const Json golden = golden_of("clusterkv");
  for (const Json& c : golden["cases"]) {
    MadeSteps layer(c);
    const int sinks = c["sinks"], window = c["window"];
    const auto policy = layer.policy(
        fmt::format("clusterkv:budget={},sinks={},nlist={},window={},window_clusters={},"
                    "accounting={}",
                    c["budget"].get<int>(), sinks, c["clusters"].get<int>(), window,
                    c["window_clusters"].get<int>(), c["accounting"].get<std::string>()),
        kLayer);
    for (std::size_t step = 0; step < c["tokens"].size(); ++step) {
      SCOPED_TRACE(fmt::format("seed {}, step {}", c["seed"].dump(), step));
      layer.step();
      const Selection got = policy->select(layer.view(kLayer));
      if (c["tokens"][step].is_null()) continue;
      const int clustered = window > 0 ? layer.generated / window * window : 0;
      const std::vector<double> sums = layer.sums_of(got);
      for (std::size_t h = 0; h < sums.size(); ++h) {
        Ints want = all_slots(sinks);
        const auto best = c["tokens"][step][h].get<Ints>();
        want.insert(want.end(), best.begin(), best.end());
        EXPECT_EQ(got.slots[h],
                  with_tail(std::move(want), layer.prompt_tokens + clustered, layer.n))
            << h;
        if (!c["sums"].empty()) {
          EXPECT_NEAR(sums[h], c["sums"][step][h].get<double>(), 1e-4) << h;
        }
      }
    }
  }
}

}  // namespace
}  // namespace turnbench
