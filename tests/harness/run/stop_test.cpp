// Runs that are told to stop: what has ended is delivered, the rest is abandoned and runs again.

#include <gtest/gtest.h>

#include <iterator>
#include <set>

#include "harness/run/probe_unit.h"
#include "tests/harness/run/small_world.h"

namespace turnbench::test {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr Decoding kStopDecoding{.max_prompt_tokens = 4000, .max_new_tokens = 8};

std::vector<Dialogue> stop_dialogues(std::size_t count, int turns) {
  return make_tiny_dialogues(TinyTask::kList,
                             {.turns = turns, .length = 90, .count = count, .seed = 3});
}

/// A stop that is requested at poll number `first`, with this time left.
struct Stop {
  std::size_t first = 0;
  Clock::duration left = {};
  std::size_t polls = 0;
  std::optional<Clock::time_point> time = {};

  std::optional<Clock::time_point> operator()() {
    if (++polls > first && !time) time = Clock::now() + left;
    return time;
  }
};

struct StoppedRun {
  std::vector<Unit> begun, ended;
  std::vector<Record> records;
};

StoppedRun run_stopped(const SmallWorld& world, const std::vector<Unit>& units,
                       const Decoding& decoding, Stop& stop) {
  const auto backend = make_cpu_backend(1);
  Engine engine(world.model, *backend, {});
  StoppedRun out;
  run_units(
      engine, world.renderer, decoding, {[&]() -> std::optional<Unit> {
        EXPECT_FALSE(stop.time) << "no unit begins after the stop";
        if (out.begun.size() == units.size()) return std::nullopt;
        return out.begun.emplace_back(units[out.begun.size()]);
      }},
      [&](const Unit& unit, UnitResult result) {
        EXPECT_EQ(result.records.size(), unit.cells.size() * unit.dialogue->turns.size());
        out.ended.push_back(unit);
        std::move(result.records.begin(), result.records.end(), std::back_inserter(out.records));
      },
      std::ref(stop));
  EXPECT_EQ(engine.memory().kv_bytes(), 0u) << "nothing is left behind";
  return out;
}

TEST(Stop, AbandonsUnitsAndTheyRunAgain) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = stop_dialogues(6, 2);
  Cells cells;
  cells.add("full");
  cells.add("snapkv:budget=24,window=4");
  std::vector<Unit> units;
  for (const Dialogue& dialogue : dialogues) units.push_back({&dialogue, cells.cells});
  const auto want = by_key(world.run(units, kStopDecoding).records);
  Stop never{1'000'000};
  EXPECT_EQ(run_stopped(world, units, kStopDecoding, never).ended.size(), units.size());
  std::set<std::size_t> numbers;
  for (std::size_t polls = 0; polls < never.polls; polls += 1 + never.polls / 8) {
    Stop stop{polls, seconds(-1)};
    const StoppedRun first = run_stopped(world, units, kStopDecoding, stop);
    EXPECT_EQ(stop.polls, polls + 1) << "at the next step";
    numbers.insert(first.ended.size());
    std::vector<Unit> rest;
    for (const Unit& unit : units) {
      if (std::none_of(first.ended.begin(), first.ended.end(),
                       [&](const Unit& ended) { return ended.dialogue == unit.dialogue; }))
        rest.push_back(unit);
    }
    auto got = by_key(first.records);
    got.merge(by_key(world.run(rest, kStopDecoding).records));
    EXPECT_TRUE(got == want) << polls;
  }
  EXPECT_GT(numbers.size(), 2u) << "stopped at different places";
}

TEST(Stop, UnitsThatEndInTimeEnd) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = stop_dialogues(10, 2);
  Cells cells;
  cells.add("full");
  std::vector<Unit> units;
  for (const Dialogue& dialogue : dialogues) units.push_back({&dialogue, cells.cells});
  Stop stop{4, hours(1)};
  const StoppedRun stopped = run_stopped(world, units, kStopDecoding, stop);
  EXPECT_GE(stopped.ended.size(), 1u);
  EXPECT_EQ(stopped.ended.size() + 1, stopped.begun.size()) << "one was waiting";
  EXPECT_LT(stopped.begun.size(), units.size());
}

// The estimate of a long answer exceeds the time that is left, so nothing waits for its end.
TEST(Stop, LongAnswersAreAbandonedAtOnce) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = stop_dialogues(1, 1);
  const Method full = Method::parse("full");
  const std::vector<Unit> units = {{&dialogues[0], {{"full", &full}}}};
  Stop stop{20, seconds(5)};
  const StoppedRun stopped =
      run_stopped(world, units,
                  {.max_prompt_tokens = 4000, .max_new_tokens = 1'000'000, .isolated = true}, stop);
  EXPECT_EQ(stop.polls, 21u);
  EXPECT_TRUE(stopped.ended.empty());
}

TEST(Stop, ProbesAreAbandoned) {
  const SmallWorld world;
  const std::vector<Dialogue> dialogues = stop_dialogues(3, 2);
  const ProbeSpec probe = ProbeSpec::parse("coverage:eta=0.1"),
                  other = ProbeSpec::parse("token-overlap:window=8");
  ProbeUnit unit{{}, {{"coverage", &probe}, {"overlap", &other}}};
  for (const Dialogue& dialogue : dialogues) unit.dialogues.push_back(&dialogue);
  const auto run = [&](Stop& stop) {
    const auto backend = make_cpu_backend(1);
    Engine engine(world.model, *backend, {});
    UnitResult out = run_probes(engine, world.renderer, kStopDecoding, unit, std::ref(stop));
    EXPECT_EQ(engine.memory().kv_bytes(), 0u);
    return out;
  };
  Stop never{1'000'000}, patient{2, hours(1)};
  const UnitResult whole = run(never);
  EXPECT_FALSE(whole.abandoned);
  EXPECT_GT(never.polls, 6u) << "also between decode steps";
  EXPECT_TRUE(by_key(run(patient).records) == by_key(whole.records));
  for (std::size_t polls = 0; polls < never.polls; polls += 5) {
    Stop stop{polls, seconds(-1)};
    const UnitResult stopped = run(stop);
    EXPECT_TRUE(stopped.abandoned);
    EXPECT_TRUE(stopped.records.empty());
    EXPECT_EQ(stop.polls, polls + 1);
  }
}

}  // namespace
}  // namespace turnbench::test
