// The time that plan estimates for a sweep.

#include "harness/experiment/plan_time.h"

#include <gtest/gtest.h>

#include "common/clock.h"
#include "common/text.h"
#include "harness/experiment/plan_prefills.h"
#include "tests/cli/program.h"
#include "tests/cli/small_store.h"

namespace turnbench::test {
namespace {

TEST(MethodSpeed, IsDerivedFromMeasuredTimes) {
  ModelConfig config;
  config.layers = 2;
  config.heads = config.kv_heads = 1;
  config.head_dim = config.hidden = config.ffn = 4;
  MethodSpeed speed;
  speed.add(config, {.prompt_tokens = 100,
                     .answers = 3,
                     .answer_tokens = 50,
                     .ended_tokens = 50,
                     .prefill_seconds = 2,
                     .decode_seconds = 5});
  speed.add(config, {.prompt_tokens = 300,
                     .answers = 1,
                     .cut_answers = 1,
                     .answer_tokens = 10,
                     .ended_tokens = 0,
                     .prefill_seconds = 6,
                     .decode_seconds = 1});
  const double flops = prefill_flops(config, 100) + prefill_flops(config, 300);
  EXPECT_DOUBLE_EQ(speed.prefill(flops), 8);
  EXPECT_DOUBLE_EQ(speed.prefill(flops / 4), 2);
  EXPECT_DOUBLE_EQ(speed.decode(60), 6);
  EXPECT_DOUBLE_EQ(speed.decode(10), 1);
  // One of four answers reaches any limit; three have 50 tokens together.
  EXPECT_DOUBLE_EQ(speed.expected_answer(90), (50 + 90) / 4.0);
  EXPECT_DOUBLE_EQ(speed.expected_answer(3), 3);
  EXPECT_DOUBLE_EQ(MethodSpeed().expected_answer(90), 90);
}

struct TimedPlan {
  Plan plan = make_plan(resolve_experiment(parse_manifest(R"({"name": "m", "models": ["tiny"],
    "datasets": [{"name": "tiny-fact", "limit": 3, "length": 300, "turns": 2}],
    "methods": ["full", "snapkv:budget=64"], "max_new_tokens": 5})",
                                                          "m"),
                                           {}, 0));
  PlannedLengths lengths{plan};
  const ModelConfig& config = plan.experiment.models[0].checkpoint.config;
  int workers = 1;

  PlannedTime time(const Speeds& speeds, Ceilings peak = {1, 1}) {
    return estimate_time(plan, speeds, lengths, {&workers, 1}, [&] { return peak; });
  }
  TimedDialogue timed(std::size_t cell) const {
    const Cell& c = plan.cells[cell];
    return {.model_hash = c.model_hash,
            .method = c.method_canonical,
            .dataset_hash = c.dataset_hash,
            .prompt_tokens = 1000,
            .answers = 1,
            .cut_answers = 1,
            .answer_tokens = 10};
  }
  /// Of all prompts, one after the other.
  double flops() {
    double out = 0;
    for (const Unit& unit : plan.units)
      out += prefill_flops(config, lengths.of(0, *unit.dialogue).prompts.back());
    return out;
  }
};

TEST(PlannedTime, UsesTheTimesOfEachMethod) {
  TimedPlan m;
  Speeds speeds;
  TimedDialogue full = m.timed(0), snapkv = m.timed(1);
  full.prefill_seconds = 1e-12 * prefill_flops(m.config, 1000);
  full.decode_seconds = 10 * 2;  // two seconds per token
  snapkv.decode_seconds = 10 * 3;
  speeds.add(m.config, full);
  speeds.add(m.config, snapkv);
  const PlannedTime time = m.time(speeds);
  // Three dialogues of two answers with five tokens, in two cells.
  EXPECT_NEAR(time.seconds, 1e-12 * m.flops() + 3 * 2 * 5 * (2 + 3), 1e-9);
  EXPECT_EQ(time.timed, 6u);
  EXPECT_EQ(time.like_others + time.by_peak, 0u);
  m.workers = 2;
  EXPECT_NEAR(m.time(speeds).seconds, time.seconds / 2, 1e-9);
}

TEST(PlannedTime, UsesOtherMethodsForMethodsWithoutTimes) {
  TimedPlan m;
  Speeds speeds;
  TimedDialogue full = m.timed(0);
  full.decode_seconds = 10 * 2;
  speeds.add(m.config, full);
  const PlannedTime time = m.time(speeds);
  EXPECT_NEAR(time.seconds, 3 * 2 * 5 * (2 + 2), 1e-9);
  EXPECT_EQ(time.timed, 3u);
  EXPECT_EQ(time.like_others, 3u);
}

TEST(PlannedTime, SharesTheWorkThatASingleSequenceDidAlone) {
  TimedPlan m;
  TimedDialogue full = m.timed(0);
  full.single = true;
  full.method = full.dataset_hash = "";
  full.decode_seconds = 10 * 2;  // two seconds per token
  Speeds slow, fast;
  fast.add(m.config, full);
  EXPECT_NEAR(m.time(fast).seconds, 3 * 2 * 5 * 2, 1e-9) << "two cells share each step";
  full.prefill_seconds = 1e-6 * prefill_flops(m.config, 1000);
  slow.add(m.config, full);
  const double token = m.config.linear_flops_per_token() + 2.0 * m.config.hidden * m.config.vocab;
  ASSERT_GT(1e-6 * token, 1);
  EXPECT_NEAR(m.time(slow).seconds, 1e-6 * (m.flops() + 3 * 2 * 5 * 2 * token), 1e-6)
      << "operations of a token take longer than half of a step";
}

TEST(PlannedTime, UsesThePeakOfTheMachineForModelsWithoutTimes) {
  TimedPlan m;
  // The two cells share a prefill; half of the peak rate is reached.
  const PlannedTime prefill = m.time({}, {1e12, 1e300});
  EXPECT_NEAR(prefill.seconds, 2 * m.flops() / 1e12, 1e-9 * m.flops());
  EXPECT_EQ(prefill.by_peak, 6u);
  EXPECT_GT(m.time({}, {1e12, 1e9}).seconds, prefill.seconds);
}

/// The manifest of some seconds.
std::string sweep(const TemporaryDirectory& d) {
  return d.write("m.json", R"({"name": "m", "models": ["tiny"],
    "datasets": [{"name": "tiny-fact", "limit": 30, "length": 900, "turns": 2}],
    "methods": ["full", "snapkv:budget=64", "h2o:budget=64", "pqcache:budget=128"]})");
}

double planned_seconds(const Json& plan) {
  return plan["time"]["seconds"];
}

TEST(PlannedTime, IsCloseToTheTimeOfARun) {
  const TemporaryDirectory d;
  const std::string manifest = sweep(d), db = d.path("s.db");
  const Json fresh = run_program({"plan", manifest, "--json"}).json();
  EXPECT_EQ(fresh["time"]["units_run"], 4);
  EXPECT_EQ(fresh["time"]["stored_dialogues"], 0);
  EXPECT_EQ(fresh["time"]["dialogues_as_timed"], 30 * 4);
  ASSERT_EQ(run_program({"run", manifest, "--db", db, "--limit", "10", "--quiet"}).code, 0);
  const Json pilot = run_program({"plan", manifest, "--db", db, "--json"}).json();
  EXPECT_EQ(pilot["time"]["units_run"], 0) << "the store knows";
  EXPECT_EQ(pilot["time"]["stored_dialogues"], 10 * 4);
  const auto start = Clock::now();
  ASSERT_EQ(run_program({"run", manifest, "--db", db, "--quiet"}).code, 0);
  const double taken = seconds_since(start);
  EXPECT_EQ(planned_seconds(run_program({"plan", manifest, "--db", db, "--json"}).json()), 0);
  // The estimate should be within a factor of two; other programs run in parallel to tests.
  for (const double planned : {planned_seconds(pilot), planned_seconds(fresh) * 2 / 3}) {
    EXPECT_GT(planned, taken / 4);
    EXPECT_LT(planned, taken * 4);
  }
}

TEST(PlannedTime, RunsNothingWithoutMeasuring) {
  const TemporaryDirectory d;
  const Json plan = run_program({"plan", sweep(d), "--json", "--no-measure"}).json();
  EXPECT_EQ(plan["time"]["units_run"], 0);
  EXPECT_EQ(plan["time"]["dialogues_by_peak"], 30 * 4);
  EXPECT_GT(planned_seconds(plan), 0);
}

// A limit that answers never reach takes no memory.
TEST(PlannedMemory, UnreachedAnswerLimitsTakeNoMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need memory of their own";
#endif
  const TemporaryDirectory d;
  const std::string manifest = d.write("m.json", R"({"name": "m", "models": ["tiny"],
    "datasets": [{"name": "tiny-fact", "limit": 8, "length": 600}], "max_new_tokens": 100000,
    "methods": ["full", "snapkv:budget=64", "h2o:budget=64"]})");
  const Json memory = run_program({"plan", manifest, "--json"}).json()["memory"];
  EXPECT_LT(memory["total_bytes"], 300 << 20);
  EXPECT_GT(memory["at_most_bytes"], std::int64_t{3} << 30);
}

// Units with shorter answers meet at other steps, which may need more memory.
TEST(PlannedMemory, IsAtMostItsMaximum) {
  const TemporaryDirectory d;
  const std::string manifest = d.write("m.json", R"({"name": "m", "models": ["tiny"],
    "datasets": [{"name": "tiny-fact", "limit": 2, "seed": 1, "length": 300},
                 {"name": "tiny-list", "limit": 2, "seed": 1, "length": 300}],
    "positions": ["begin", "end"], "answers": "gold",
    "methods": ["full", "snapkv:budget=64", "streamingllm:budget=4096"]})");
  const Json memory = run_program({"plan", manifest, "--workers", "2", "--threads", "1", "--json"})
                          .json()["memory"];
  EXPECT_LE(memory["total_bytes"], memory["at_most_bytes"]);
}

// No more workers run than there are units.
TEST(PlannedMemory, UsesThePlannedUnits) {
  const TemporaryDirectory d;
  const auto of_worker = [&](int limit) {
    const std::string manifest = d.write("m.json", replace_all(R"({"name": "m",
      "models": ["tiny"], "datasets": [{"name": "tiny-fact", "limit": 8, "length": 2000}],
      "methods": ["full"]})",
                                                               "8", std::to_string(limit)));
    const Json json =
        run_program({"plan", manifest, "--json", "--workers", "2", "--no-measure"}).json();
    return json["memory"]["models"][0]["worker_bytes"].get<double>();
  };
  EXPECT_LT(of_worker(2), of_worker(4));
  EXPECT_LT(of_worker(4), of_worker(8));
}

}  // namespace
}  // namespace turnbench::test
