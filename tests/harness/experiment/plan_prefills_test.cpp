// The prefills that plan counts are those that the runner computes.

#include "harness/experiment/plan_prefills.h"

#include <gtest/gtest.h>

#include "tests/harness/run/small_world.h"

namespace turnbench::test {
namespace {

struct Planned {
  explicit Planned(const std::string& rest, int turns = 2)
      : plan(make_plan(resolve_experiment(
            parse_manifest(R"({"name": "m", "models": ["tiny"], "datasets": [
      {"name": "tiny-fact", "limit": 1, "length": 300, "turns": )" +
                               std::to_string(turns) +
                               R"(}], "positions": ["end"], "max_new_tokens": 5, )" + rest + "}",
                           "m"),
            {}, 0))),
        lengths(PlannedLengths(plan).of(0, *plan.units[0].dialogue)),
        first(lengths.prompts.front()),
        last(lengths.prompts.back()) {}

  std::vector<PlannedPrefill> prefills() const {
    return planned_prefills(plan.units[0], lengths, plan.experiment.manifest.isolated,
                            plan.experiment.manifest.fidelity);
  }

  Plan plan;
  PromptLengths lengths;
  std::int64_t first, last;
};

/// Expects these [begin, end) of prefills, and the cells that use them.
struct ExpectedPrefill {
  std::int64_t begin, end;
  std::vector<std::size_t> cells;
};
void expect_prefills(const Planned& planned, const std::vector<ExpectedPrefill>& expected) {
  const std::vector<PlannedPrefill> found = planned.prefills();
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].begin, expected[i].begin) << i;
    EXPECT_EQ(found[i].end, expected[i].end) << i;
    EXPECT_EQ(found[i].cells, expected[i].cells) << i;
  }
}

TEST(PlannedPrefills, FollowTheSharingRule) {
  const std::string methods = R"("methods": ["full", "snapkv:budget=64"])";
  const Planned shared(methods);
  expect_prefills(shared, {{0, shared.first, {0, 1}}, {shared.first, shared.last, {0, 1}}});
  const Planned kept(methods + R"(, "history": "recompress")");
  expect_prefills(
      kept, {{0, kept.first, {0, 1}}, {kept.first, kept.last, {0}}, {kept.first, kept.last, {1}}});
  const Planned alone(methods + R"(, "alone": true)");
  expect_prefills(
      alone,
      {{0, alone.first, {0}}, {0, alone.last, {0}}, {0, alone.first, {1}}, {0, alone.last, {1}}});
  const Planned dense(methods + R"(, "history": "dense", "answers": "gold")");
  const std::int64_t answered = dense.first + dense.lengths.earlier_answers[1];
  EXPECT_GT(answered, dense.first);
  expect_prefills(
      dense, {{0, answered, {0, 1}}, {answered, dense.last, {0}}, {answered, dense.last, {1}}});
  const Planned reference(R"("methods": ["a-shape"], "fidelity": "gold", "answers": "gold")");
  const std::vector<PlannedPrefill> found = reference.prefills();
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].cells.size() + found[1].cells.size(), 1u) << "one is for the reference";
}

// In a later turn, the prefill that ended at the previous question computes that question, too.
TEST(PlannedPrefills, ShareTheRowsBeforeTheQuestion) {
  const Planned p(R"("methods": ["snapkv:budget=64,compress=before_question", "full"])");
  const auto& questions = p.lengths.questions;
  expect_prefills(p, {{p.first - questions[0], p.first, {0}},
                      {0, p.first, {1}},
                      {p.last - questions[1] - questions[0], p.last, {0}},
                      {p.first, p.last, {1}}});
  const Planned alone(R"("methods": ["snapkv:budget=64,compress=before_question"])");
  expect_prefills(alone, {{0, alone.first, {0}}, {alone.first - questions[0], alone.last, {0}}});
}

TEST(PlannedPrefills, IncludeScoringPassesOncePerKey) {
  const Planned planned(R"("methods": ["full", "kvzip:budget=32", "kvzip:budget=64",
      "kvzip:budget=64,chunk=100"])",
                        1);
  const std::vector<PlannedPrefill> found = planned.prefills();
  ASSERT_EQ(found.size(), 1u) << "one prefill for all methods";
  EXPECT_EQ(found[0].scoring_rows, 2 * planned.last) << "budgets share their passes, chunks do not";
  const ModelConfig& config = planned.plan.experiment.models[0].checkpoint.config;
  const double n = static_cast<double>(planned.last), linear = config.linear_flops_per_token() * n,
               every_pair = 4.0 * config.layers * config.heads * config.head_dim * n * n;
  EXPECT_DOUBLE_EQ(found[0].flops(config), 3 * linear + 2.5 * every_pair);
}

// A pass after each block reads the tokens that are left and the block.
TEST(PlannedPrefills, IncludeTheScoringPassesOfBlocks) {
  const Planned planned(
      R"("methods": ["keydiff:budget=64,compress_block=100", "epicache:budget=64,compress_block=100",
         "epicache:budget=5000,compress_block=100"])",
      1);
  const std::vector<PlannedPrefill> found = planned.prefills();
  ASSERT_EQ(found.size(), 3u);
  const std::int64_t blocks = (planned.last + 99) / 100, rows = found[1].scoring_rows,
                     left = planned.last - 100 * (blocks - 1);
  EXPECT_GT(rows, 0);
  EXPECT_EQ(found[1].scoring().rows, blocks * rows);
  EXPECT_EQ(found[1].scoring().pairs,
            static_cast<double>(rows * (100 + (blocks - 2) * 164 + 64 + left)));
  for (const std::size_t none : {0, 2}) EXPECT_EQ(found[none].scoring().rows, 0);
  const ModelConfig& config = planned.plan.experiment.models[0].checkpoint.config;
  EXPECT_GT(found[1].flops(config), found[0].flops(config));
}

// Each block attends to the tokens that the eviction before it kept.
TEST(PlannedPrefills, InBlocksAreNotShared) {
  const Planned p(
      R"("methods": ["full", "snapkv:budget=64", "snapkv:budget=64,compress_block=100"])", 1);
  const std::vector<PlannedPrefill> found = p.prefills();
  expect_prefills(p, {{0, p.last, {0, 1}}, {0, p.last, {2}}});
  const ModelConfig& config = p.plan.experiment.models[0].checkpoint.config;
  const double linear = config.linear_flops_per_token() * static_cast<double>(p.last),
               pair = 4.0 * config.layers * config.heads * config.head_dim;
  const std::int64_t blocks = (p.last - 1) / 100, rest = p.last - 100 * blocks;
  const auto left = static_cast<double>(rest);
  EXPECT_GT(blocks, 1);
  EXPECT_NEAR(found[1].flops(config),
              linear + pair * (100 * 50 + static_cast<double>(blocks - 1) * 100 * (64 + 50) +
                               left * (64 + left / 2)),
              1);
  EXPECT_LT(found[1].flops(config), found[0].flops(config));
}

TEST(PlannedPrefills, OfRowsBeforeAQuestionAreComputedOnce) {
  const SmallWorld world;
  const Planned p(R"("methods": ["snapkv:budget=64,compress=before_question", "full"])", 1);
  const UnitResult result =
      world.run(p.plan.units, p.plan.experiment.decoding(p.plan.experiment.models[0]));
  EXPECT_EQ(result.prefilled_tokens, p.first + p.lengths.questions[0] + 1)
      << "the row before the question, where snapkv evicts, is computed again";
}

TEST(PlannedPrefills, CoverTheTokensThatTheRunnerPrefills) {
  const SmallWorld world;
  for (const int turns : {1, 3}) {
    for (const char* history : {"reprefill", "compress_once", "recompress", "dense"}) {
      for (const char* more : {"", R"(, "alone": true)"}) {
        SCOPED_TRACE(std::to_string(turns) + history + more);
        const Planned planned(R"("methods": ["full", "snapkv:budget=64", "a-shape",
          "snapkv:budget=64,compress=before_question", "minference+h2o:budget=64", "int8",
          "keydiff:budget=64,compress_block=70"], "answers": "gold", "history": ")" +
                                  std::string(history) + R"(")" + more,
                              turns);
        const Decoding decoding =
            planned.plan.experiment.decoding(planned.plan.experiment.models[0]);
        const std::vector<Unit> units =
            decoding.isolated ? planned.plan.units[0].split() : planned.plan.units;
        std::int64_t expected = 0;
        for (const PlannedPrefill& prefill : planned.prefills()) expected += prefill.tokens();
        const std::int64_t computed = world.run(units, decoding).prefilled_tokens;
        // Plans do not count the row before a question, which is computed twice.
        EXPECT_GE(computed, expected);
        EXPECT_LE(computed, expected + turns);
      }
    }
  }
}

}  // namespace
}  // namespace turnbench::test
