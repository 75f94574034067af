// The memory estimate of plan, compared with the memory of run.

#include <gtest/gtest.h>

#include "common/error.h"
#include "harness/experiment/plan_cost.h"
#include "tests/cli/program.h"

namespace turnbench::test {
namespace {

struct Case {
  const char *name, *manifest;
  // 1: a process, whose units run in a fixed order; 0: two threads, which may need most memory at
  // different times.
  const char* workers;
  bool answers_matter = false;  // for the shared computation
};

/// The memory that run reports, as counted by the kernel; it is rounded to MiB.
double peak_bytes(const std::string& err) {
  const std::string before = "peak memory ";
  const std::size_t at = err.find(before);
  return at == std::string::npos ? 0 : std::stod(err.substr(at + before.size())) * (1 << 20);
}

class PlanMemory : public testing::TestWithParam<Case> {};

TEST_P(PlanMemory, EqualsTheMemoryOfARun) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need memory of their own";
#endif
  const TemporaryDirectory directory;
  const std::string manifest = directory.write("memory.json", GetParam().manifest);
  const Finished plan =
      run_program({"plan", manifest, "--workers", GetParam().workers, "--threads", "1", "--json"});
  ASSERT_EQ(plan.code, 0) << plan.err;
  const Finished run = run_program({"run", manifest, "--workers", GetParam().workers, "--threads",
                                    "1", "--db", directory.path("memory.db")});
  ASSERT_EQ(run.code, 0) << run.err;
  const double planned = plan.json()["memory"]["total_bytes"],
               at_most = plan.json()["memory"]["at_most_bytes"], taken = peak_bytes(run.err),
               rounding = 0.5 * (1 << 20);
  EXPECT_GT(taken + rounding, 0.9 * planned) << planned / (1 << 20) << " and " << taken / (1 << 20);
  EXPECT_LT(taken, 1.1 * at_most) << at_most / (1 << 20) << " and " << taken / (1 << 20);
  EXPECT_EQ(planned == at_most, !GetParam().answers_matter);
}

INSTANTIATE_TEST_SUITE_P(
    Runs, PlanMemory,
    testing::Values(Case{"FullAttention", R"({"name": "m", "models": ["tiny"], "max_new_tokens": 4,
              "datasets": [{"name": "tiny-fact", "limit": 1, "length": 5000, "turns": 1}],
              "positions": ["begin"], "methods": ["full"]})",
                         "1"},
                    Case{"GoldAnswers", R"({"name": "m", "models": ["tiny"], "max_new_tokens": 8,
              "datasets": [{"name": "tiny-fact", "limit": 8, "length": 1500}], "answers": "gold",
              "positions": ["begin"], "methods": ["full", "snapkv:budget=512", "h2o:budget=512",
              "streamingllm:budget=512,pos=shift", "oracle", "loopserve"]})",
                         "0"},
                    Case{"OwnAnswers", R"({"name": "m", "models": ["tiny"], "max_new_tokens": 8,
              "datasets": [{"name": "tiny-fact", "limit": 8, "length": 1500}],
              "positions": ["begin"], "methods": ["full", "snapkv:budget=512", "h2o:budget=512",
              "streamingllm:budget=512,pos=shift", "oracle", "loopserve"]})",
                         "0", true},
                    Case{"BeforeQuestion", R"({"name": "m", "models": ["tiny"], "max_new_tokens": 8,
              "datasets": [{"name": "tiny-fact", "limit": 8, "length": 1500}], "answers": "gold",
              "positions": ["middle"], "methods": ["full", "snapkv:budget=512",
              "snapkv:budget=512,compress=before_question"]})",
                         "1"},
                    Case{"Blocks", R"({"name": "m", "models": ["tiny"], "max_new_tokens": 4,
              "datasets": [{"name": "tiny-fact", "limit": 1, "length": 6000, "turns": 1}],
              "positions": ["end"], "methods": ["snapkv:budget=1024,compress_block=1024"]})",
                         "1"},
                    Case{"ShortBlocks", R"({"name": "m", "models": ["tiny"], "max_new_tokens": 4,
              "datasets": [{"name": "tiny-fact", "limit": 1, "length": 6000, "turns": 2}],
              "history": ["reprefill", "recompress"], "positions": ["end"], "answers": "gold",
              "methods": ["keydiff:budget=2048,compress_block=256"]})",
                         "1"},
                    Case{"Fidelity", R"({"name": "m", "models": ["tiny"], "max_new_tokens": 8,
              "datasets": [{"name": "tiny-fact", "limit": 8, "length": 1500}], "answers": "gold",
              "positions": ["begin"], "methods": ["full", "snapkv:budget=512", "h2o:budget=512",
              "streamingllm:budget=512,pos=shift", "oracle", "loopserve"],
              "fidelity": "full"})",
                         "1"},
                    Case{"FidelityWithoutFull",
                         R"({"name": "m", "models": ["tiny"], "max_new_tokens": 8,
              "datasets": [{"name": "tiny-fact", "limit": 8, "length": 1500}], "answers": "gold",
              "positions": ["begin"], "methods": ["snapkv:budget=512", "loopserve"],
              "fidelity": "full"})",
                         "1"},
                    Case{"OnlyAReferenceIsDense",
                         R"({"name": "m", "models": ["tiny"], "max_new_tokens": 8,
              "datasets": [{"name": "tiny-fact", "limit": 8, "length": 1500}], "answers": "gold",
              "positions": ["begin"], "methods": ["a-shape:n_init=16,n_local=256"],
              "fidelity": "gold"})",
                         "1"},
                    Case{"KeptCaches", R"({"name": "m", "models": ["tiny"], "max_new_tokens": 8,
              "datasets": [{"name": "tiny-fact", "limit": 2, "length": 2000}],
              "history": ["recompress", "compress_once"],
              "positions": ["end"], "methods": ["full", "snapkv:budget=1024"]})",
                         "1"},
                    Case{"WideWindow", R"({"name": "m", "models": ["tiny"], "max_new_tokens": 4,
              "datasets": [{"name": "tiny-fact", "limit": 1, "length": 2000}],
              "positions": ["end"], "methods": ["snapkv:budget=1024,window=1000"]})",
                         "1"},
                    Case{"KeptCachesWithAWideWindow",
                         R"({"name": "m", "models": ["tiny"], "max_new_tokens": 4,
              "datasets": [{"name": "tiny-fact", "limit": 2, "length": 2000}],
              "history": ["recompress", "compress_once"], "positions": ["end"],
              "methods": ["full", "snapkv:budget=1024", "snapkv:budget=1024,window=1000"]})",
                         "1"},
                    Case{"ScoringPasses", R"({"name": "m", "models": ["tiny"], "max_new_tokens": 4,
              "datasets": [{"name": "tiny-fact", "limit": 1, "length": 6000, "turns": 1}],
              "positions": ["end"], "methods": ["kvzip"]})",
                         "1"},
                    Case{"ScoringPassesAfterBlocks",
                         R"({"name": "m", "models": ["tiny"], "max_new_tokens": 4,
              "datasets": [{"name": "tiny-fact", "limit": 1, "length": 6000, "turns": 1}],
              "positions": ["end"], "methods": [
              "epicache:budget=512,episodes=1,medoids=64,compress_block=512"]})",
                         "1"},
                    Case{"AloneOverTurns",
                         R"({"name": "m", "models": ["tiny"], "max_new_tokens": 8, "alone": true,
              "datasets": [{"name": "tiny-fact", "limit": 1, "length": 3500, "turns": 2}],
              "positions": ["end"], "methods": ["full", "snapkv:budget=512", "loopserve"]})",
                         "1"},
                    Case{"ProbesAlone", R"({"name": "m", "models": ["tiny"], "max_new_tokens": 4,
              "datasets": [{"name": "tiny-fact", "limit": 4, "length": 4000, "turns": 1}],
              "positions": ["end"], "probes": ["token-overlap"]})",
                         "0"},
                    Case{"Encoded", R"({"name": "m", "models": ["tiny"], "max_new_tokens": 8,
              "datasets": [{"name": "tiny-fact", "limit": 8, "length": 4000, "turns": 1}],
              "positions": ["begin"], "methods": ["int8", "int8+quest:budget=512"]})",
                         "1"},
                    Case{"EncodedAlone",
                         R"({"name": "m", "models": ["tiny"], "max_new_tokens": 4, "alone": true,
              "datasets": [{"name": "tiny-fact", "limit": 1, "length": 5000, "turns": 1}],
              "positions": ["end"], "methods": ["int8+snapkv:budget=2048"]})",
                         "1"},
                    Case{"EncodedInGroups",
                         R"({"name": "m", "models": ["tiny"], "max_new_tokens": 8,
              "datasets": [{"name": "tiny-fact", "limit": 4, "length": 4000, "turns": 1}],
              "positions": ["begin"], "methods": ["full", "kivi", "kivi:bits=4"]})",
                         "1"},
                    Case{"EncodedInGroupsAlone",
                         R"({"name": "m", "models": ["tiny"], "max_new_tokens": 4, "alone": true,
              "datasets": [{"name": "tiny-fact", "limit": 1, "length": 5000, "turns": 1}],
              "positions": ["end"], "methods": ["kivi:bits=4"]})",
                         "1"},
                    Case{"SharedOnTheHost",
                         R"({"name": "m", "models": ["tiny"], "max_new_tokens": 4,
              "datasets": [{"name": "tiny-fact", "limit": 1, "length": 4000, "turns": 1}],
              "positions": ["end"], "methods": ["oracle:budget=512,placement=host",
              "full:placement=host", "sparq:budget=512,placement=host"]})",
                         "1"},
                    Case{"AloneOnTheHost",
                         R"({"name": "m", "models": ["tiny"], "max_new_tokens": 4, "alone": true,
              "datasets": [{"name": "tiny-fact", "limit": 1, "length": 4000, "turns": 1}],
              "positions": ["end"], "methods": ["full:placement=host",
              "streamingllm:budget=3500,pos=shift"]})",
                         "1"},
                    Case{"Alone",
                         R"({"name": "m", "models": ["tiny"], "max_new_tokens": 8, "alone": true,
              "datasets": [{"name": "tiny-fact", "limit": 1, "length": 5000, "turns": 1}],
              "positions": ["end"], "methods": ["full", "snapkv:budget=512"]})",
                         "1"}),
    [](const auto& info) { return std::string(info.param.name); });

// Each stage has the scratch memory of a pass, and both ends have the tied table.
TEST(PlannedStages, MemoryIncludesEachStage) {
  const std::string text = R"({"name": "m", "models": ["tiny"],
    "datasets": [{"name": "tiny-fact", "limit": 1, "length": 300}],
    "positions": ["begin"], "methods": ["full"]})";
  const Plan plan = make_plan(resolve_experiment(parse_manifest(text, "m"), {}, 0));
  const ModelConfig& c = plan.experiment.models[0].checkpoint.config;
  ASSERT_TRUE(c.tied_embeddings);
  const auto stages = [](std::size_t count) { return std::vector<Device>(count); };
  PlannedLengths lengths(plan);
  const auto memory = [&](std::size_t count) {
    return estimate_cost(plan, stages(count), lengths).memory[0];
  };
  const PlanCost::Memory one = memory(1), two = memory(2), four = memory(4);
  const std::size_t table = static_cast<std::size_t>(c.vocab) * static_cast<std::size_t>(c.hidden) *
                            size_of(plan.experiment.models[0].dtype);
  EXPECT_EQ(two.weights, one.weights + table);
  EXPECT_EQ(four.weights, two.weights);
  EXPECT_GT(two.worker.if_answers_agree, one.worker.if_answers_agree);
  EXPECT_EQ(four.worker.if_answers_agree - two.worker.if_answers_agree,
            2 * (two.worker.if_answers_agree - one.worker.if_answers_agree));
  EXPECT_THROW(memory(5), Error) << "more stages than layers";
}

}  // namespace
}  // namespace turnbench::test
