// Sums of probabilities that several threads request at once.

#include <gtest/gtest.h>

#include <thread>

#include "common/error.h"
#include "tests/methods/layer.h"

namespace turnbench {
namespace {

constexpr int kSets = 4, kGroup = 2, kKeys = 150, kQueries = 5;

struct AddMass : testing::Test {
  test::Layer layer{kSets, kGroup, /*head_dim=*/32, kKeys, kQueries, /*seed=*/7};
  const std::size_t heads = static_cast<std::size_t>(kSets * kGroup);

  /// The attention of the last rows to all sets, requested for `at_once` sets at a time:
  /// [heads][keys].
  std::vector<float> sums(std::size_t at_once) {
    std::vector<float> out(heads * kKeys);
    std::vector<LineMassJob> jobs;
    for (std::size_t s = 0; s < layer.sets.size(); ++s) {
      LineMassJob& job = jobs.emplace_back();
      job.keys = &layer.sets[s];
      job.q = layer.tail.queries().columns_at(s * kGroup * 32, kGroup * 32);
      job.positions = layer.tail.positions();
      job.vertical = {out.data() + s * kGroup * kKeys, kGroup, kKeys};
    }
    const float scale = 1 / std::sqrt(32.0f);
    for (std::size_t s = 0; s < jobs.size(); s += at_once)
      layer.backend->add_line_mass(scale, std::span(jobs).subspan(s, at_once));
    return out;
  }
};

TEST_F(AddMass, EqualsDoublePrecision) {
  const std::vector<float> got = sums(kSets);
  for (int h = 0; h < kSets * kGroup; ++h) {
    for (int j = 0; j < kKeys; ++j) {
      double want = 0;
      for (int i = kKeys - kQueries; i < kKeys; ++i) want += layer.probability(h, i, j);
      ASSERT_NEAR(got[h * kKeys + j], want, 1e-5) << h << ", " << j;
    }
  }
}

TEST_F(AddMass, SupportsConcurrentCallers) {
  const std::vector<float> want = sums(1);
  const int rounds = test::is_emulated() ? 2 : 50;
  std::vector<std::vector<float>> got(static_cast<std::size_t>(4 * rounds));
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = t; i < got.size(); i += 4) got[i] = sums(kSets);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& each : got) ASSERT_EQ(each, want);
}

TEST_F(AddMass, SupportsCallersInBackendTasks) {
  const std::vector<float> want = sums(1);
  std::vector<std::vector<float>> got(16);
  layer.backend->parallel_for(got.size(), [&](std::size_t i) { got[i] = sums(kSets); });
  for (const auto& each : got) ASSERT_EQ(each, want);
}

// A policy declares the number of rows that it uses; rows that were not stored cannot be summed.
TEST_F(AddMass, MoreRowsThanAPolicyDeclaredAreRefused) {
  test::Layer small(kSets, kGroup, 32, kKeys, kQueries, 7, /*tail_rows=*/8);
  EXPECT_NO_THROW(small.stats->window_mass(8));  // as many as there are: 5
  EXPECT_EQ(small.stats->window_rows(8), kQueries);
  EXPECT_THROW(small.stats->window_mass(9), Error);
  test::Layer none(kSets, kGroup, 32, kKeys, kQueries, 7, /*tail_rows=*/0);
  EXPECT_THROW(none.stats->window_mass(1), Error);
}

}  // namespace
}  // namespace turnbench
