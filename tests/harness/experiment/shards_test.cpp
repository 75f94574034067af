// Keys, costs and shards of a plan's units.

#include "harness/experiment/shards.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

namespace turnbench::test {
namespace {

Plan shard_plan(const std::string& rest, std::size_t limit = 0) {
  const std::string text = R"({"name": "m", "models": ["tiny"], "datasets": [
    {"name": "tiny-fact", "limit": 3, "length": 300, "turns": 2}], "max_new_tokens": 5, )" +
                           rest + "}";
  return make_plan(resolve_experiment(parse_manifest(text, "m"), {}, limit));
}

std::set<std::string> unit_keys(const Plan& plan) {
  std::set<std::string> out;
  for (const Unit& unit : plan.units) out.insert(unit.key);
  for (const ProbeUnit& unit : plan.probe_units) out.insert(unit.key);
  EXPECT_EQ(out.size(), plan.unit_count());
  return out;
}

TEST(UnitKeys, DependOnContentAlone) {
  const std::string probes = R"(, "probes": ["token-overlap", "coverage"])";
  const std::set<std::string> keys = unit_keys(shard_plan(
      R"("positions": ["begin", "end"], "methods": ["full", "h2o:budget=64"])" + probes));
  EXPECT_EQ(keys, unit_keys(shard_plan(R"("positions": ["end", "begin"],
                                     "methods": ["h2o:budget=64", "full"])" +
                                       probes)));
  const std::set<std::string> limited = unit_keys(
      shard_plan(R"("positions": ["begin", "end"], "methods": ["full", "h2o:budget=64"])", 1));
  EXPECT_EQ(limited.size(), 2u);
  EXPECT_TRUE(std::includes(keys.begin(), keys.end(), limited.begin(), limited.end()));
  for (const std::string& key :
       unit_keys(shard_plan(R"("positions": ["begin", "end"], "methods": ["full"])")))
    EXPECT_FALSE(keys.contains(key)) << "other cells";
  // What is stored does not change a key.
  Plan plan = shard_plan(R"("positions": ["begin"], "methods": ["full", "h2o:budget=64"])");
  const std::set<std::string> before = unit_keys(plan);
  Work done;
  for (const Unit& unit : plan.units) done.emplace(unit.cells[0].key, unit.dialogue->id);
  drop_planned_work(plan, done);
  EXPECT_EQ(plan.units[0].cells.size(), 1u);
  EXPECT_EQ(unit_keys(plan), before);
  EXPECT_EQ(plan.units[0].split()[0].key, plan.units[0].key);
}

TEST(RelativeCost, GrowsWithTheWorkOfAUnit) {
  const auto cost = [](const std::string& rest) {
    const Plan plan = shard_plan(R"("positions": ["begin"], )" + rest);
    PlannedLengths lengths(plan);
    return relative_cost(plan, plan.units[0], lengths);
  };
  const std::int64_t one = cost(R"("methods": ["full"])"),
                     shared = cost(R"("methods": ["full", "h2o:budget=64"])"),
                     own = cost(R"("methods": ["full", "a-shape"])");
  EXPECT_GT(one, 100) << "fine enough to tell units apart";
  EXPECT_GT(shared, one) << "another answer";
  EXPECT_GT(own, shared) << "another prefill";
  EXPECT_GT(cost(R"("methods": ["full", "kvzip:budget=64"])"), shared) << "passes after it";
  EXPECT_GT(cost(R"("methods": ["full", "h2o:budget=64"], "alone": true)"), shared);
}

TEST(ShardsOfAPlan, AreFilledByDecreasingCost) {
  const std::vector<WeightedUnit> units = {{"a", 3}, {"b", 7}, {"c", 5}, {"d", 5}, {"e", 4}};
  // b -> 1; c -> 2; d -> 3; e -> 2 (5 = 5, the first); a -> 3.
  EXPECT_EQ(assign_shards(units, 3), (std::vector<int>{3, 1, 2, 3, 2}));
  EXPECT_EQ(assign_shards(units, 1), (std::vector<int>{1, 1, 1, 1, 1}));
  EXPECT_TRUE(assign_shards({}, 4).empty());
}

TEST(ShardsOfAPlan, DependNeitherOnOrderNorOnTies) {
  std::mt19937 random(3);
  std::vector<WeightedUnit> units;
  for (int i = 0; i < 200; ++i)
    units.push_back({"unit" + std::to_string(i), static_cast<std::int64_t>(1 + random() % 20)});
  for (const int count : {2, 3, 8, 300}) {
    std::map<std::string, int> first;
    for (int shuffle = 0; shuffle < 3; ++shuffle) {
      const std::vector<int> shards = assign_shards(units, count);
      std::vector<std::int64_t> totals(static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < units.size(); ++i) {
        totals[shards[i] - 1] += units[i].cost;
        const auto [known, is_new] = first.try_emplace(units[i].key, shards[i]);
        EXPECT_EQ(known->second, shards[i]);
      }
      const auto [least, most] = std::minmax_element(totals.begin(), totals.end());
      EXPECT_LE(*most - *least, 20) << "the largest cost";
      std::shuffle(units.begin(), units.end(), random);
    }
  }
}

TEST(ShardsOfAPlan, DivideAPlanCompletely) {
  const std::string rest = R"("positions": ["begin", "middle", "end"],
    "methods": ["full", "snapkv:budget=64", "a-shape"], "probes": ["token-overlap", "coverage"])";
  const std::set<std::string> all = unit_keys(shard_plan(rest));
  for (const int count : {1, 3, 8, 50}) {
    std::set<std::string> found;
    for (int i = 1; i <= count; ++i) {
      Plan plan = shard_plan(rest);
      PlannedLengths lengths(plan);
      const StoredShard shard = keep_shard(plan, {i, count}, lengths);
      EXPECT_EQ(shard.units.size(), plan.unit_count());
      for (const StoredShard::Unit& unit : shard.units)
        EXPECT_TRUE(found.insert(unit.key).second) << "in two shards";
      for (const Unit& unit : plan.units) EXPECT_EQ(unit.cells.size(), 3u) << "not divided";
    }
    EXPECT_EQ(found, all);
  }
}

}  // namespace
}  // namespace turnbench::test
