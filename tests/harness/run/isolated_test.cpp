// Units that run alone, to be measured.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "runners/runner.h"
#include "tests/harness/run/small_world.h"
#include "tests/temporary_directory.h"

namespace turnbench::test {
namespace {

Dialogue dialogue_of(int length, std::uint64_t seed = 3) {
  return make_tiny_dialogues(TinyTask::kFact,
                             {.turns = 2, .length = length, .count = 1, .seed = seed})[0];
}

/// Records of a unit by turn.
std::map<int, Result> by_turn(const UnitResult& result, const std::string& dialogue) {
  std::map<int, Result> out;
  for (const auto& [key, value] : by_key(result.records)) {
    if (std::get<1>(key) == dialogue) out.emplace(std::get<2>(key), value);
  }
  return out;
}

// The cells of a unit run one by one; the unit is done when its last cell is.  A resumed run has
// only the cells that are missing.
TEST(Isolated, UnitsAreDoneWithTheirLastCell) {
  const auto planned = [] {
    return make_plan(resolve_experiment(parse_manifest(R"({"name": "m", "models": ["tiny"],
      "alone": true, "max_new_tokens": 2, "positions": ["begin"],
      "datasets": [{"name": "tiny-fact", "limit": 2, "length": 100, "turns": 1}],
      "methods": ["full", "snapkv:budget=24,window=4", "h2o:budget=24"]})",
                                                       "m"),
                                        {}, 0));
  };
  const TemporaryDirectory directory;
  Store store = Store::create(directory.path("units.db"));
  std::vector<std::size_t> done;
  const auto run = [&](const Plan& plan, std::size_t most) {
    done.clear();
    return run_plan(
        plan, store, {.threads = 1}, [&] { return done.size() == most; },
        [&](const Progress& progress) { done.push_back(progress.units_done); });
  };
  Plan plan = planned();
  store.add_experiment(stored_experiment(plan));
  ASSERT_TRUE(drop_stored_work(plan, store).empty());
  EXPECT_TRUE(run(plan, 4).stopped);
  EXPECT_EQ(done, (std::vector<std::size_t>{0, 0, 1, 1}));
  plan = planned();
  drop_stored_work(plan, store);
  EXPECT_EQ(plan.unit_count(), 1u);
  EXPECT_FALSE(run(plan, 9).stopped);
  EXPECT_EQ(done, (std::vector<std::size_t>{0, 1}));
  plan = planned();
  drop_stored_work(plan, store);
  EXPECT_EQ(plan.unit_count(), 0u);
}

// The measures of a cell do not depend on earlier cells on the same engine, or on chance.
TEST(Isolated, PeaksBelongToOneCell) {
  const SmallWorld world;
  const Dialogue small = dialogue_of(120), large = dialogue_of(900, 5);
  const Decoding decoding{.max_prompt_tokens = 4000, .max_new_tokens = 4, .isolated = true};
  const Method full = Method::parse("full"),
               others[] = {Method::parse("minference"), Method::parse("h2o:budget=64"),
                           Method::parse("pqcache:budget=64")};
  for (const char* spec : {"full", "quest:budget=32,placement=host", "pqcache:budget=64"}) {
    const Method method = Method::parse(spec);
    for (const int threads : {1, 2}) {
      const Unit measured{&small, {{spec, &method}}};
      std::vector<Unit> behind;
      for (const Method& other : others) behind.push_back({&large, {{"before", &other}}});
      behind.push_back({&large, {{"before", &full}}});
      behind.push_back(measured);
      const auto alone = by_turn(world.run({measured}, decoding, threads), small.id),
                 after = by_turn(world.run(behind, decoding, threads), small.id);
      ASSERT_EQ(alone.size(), 2u);
      for (const auto& [turn, want] : alone) {
        EXPECT_EQ(want.error, "");
        for (const char* peak : {"peak_bytes", "decode_peak_bytes"})
          EXPECT_EQ(after.at(turn).counters.at(peak), want.counters.at(peak))
              << spec << " " << peak;
      }
    }
  }
}

// What a cell reads, moves and stores on the device does not depend on cells that share its prompt.
TEST(Isolated, CountersAreThoseOfSharedCells) {
  const SmallWorld world;
  const Dialogue dialogue =
      make_tiny_dialogues(TinyTask::kFact, {.turns = 4, .length = 240, .count = 1, .seed = 3})[0];
  const Method full = Method::parse("full");
  for (const char* spec :
       {"round:lw=1", "round:lw=2,cold=true", "quest:budget=32,placement=host", "pqcache:budget=64",
        "clusterkv:budget=32", "shadowkv:budget=32", "infllm:budget=64", "sparq:budget=32",
        "specontext-self:budget=32", "snapkv:budget=64+quest:budget=32,placement=host"}) {
    const Method method = Method::parse(spec);
    Decoding decoding{.max_prompt_tokens = 4000, .max_new_tokens = 4};
    const auto shared =
        by_key(world.run({{&dialogue, {{"full", &full}, {"m", &method}}}}, decoding).records);
    decoding.isolated = true;
    const auto alone = by_key(world.run({{&dialogue, {{"m", &method}}}}, decoding).records);
    ASSERT_EQ(alone.size(), 4u);
    for (const auto& [key, want] : alone) {
      EXPECT_EQ(want.error, "");
      for (const char* name : {"resident_kv_bytes", "step_bytes", "attended_tokens"}) {
        const auto found = want.counters.find(name);
        if (found == want.counters.end()) continue;
        EXPECT_EQ(shared.at(key).counters.at(name), found->second)
            << spec << ", turn " << std::get<2>(key) << ": " << name;
      }
    }
  }
}

// An answer that needs more memory than estimated from its prompt is counted.
TEST(Isolated, LongAnswersIncreaseResidentMemory) {
  const SmallWorld world;
  const Dialogue dialogue = dialogue_of(120);
  const Method method = Method::parse("full:placement=host");
  const auto resident = [&](int answer) {
    const Decoding decoding{.max_prompt_tokens = 4000, .max_new_tokens = answer, .isolated = true};
    return by_turn(world.run({{&dialogue, {{"full", &method}}}}, decoding), dialogue.id)
        .at(0)
        .counters.at("resident_kv_bytes");
  };
  const double promised = resident(4);
  EXPECT_EQ(resident(900), promised) << "there was room for that";
  EXPECT_GT(resident(2100), promised);
}

}  // namespace
}  // namespace turnbench::test
