// The probe recall: the selections of methods along full attention's answer.

#include <gtest/gtest.h>

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "harness/run/probe_unit.h"
#include "tests/harness/run/small_world.h"

namespace turnbench {
namespace {

using namespace test;

TEST(Recall, CoversSelectionMethods) {
  const SmallWorld world;
  const Dialogue dialogue =
      make_tiny_dialogues(TinyTask::kList, {.turns = 2, .length = 90, .count = 1, .seed = 3})[0];
  std::deque<ProbeSpec> probes;
  ProbeUnit unit{{&dialogue}, {}, Answers::kGold};
  const std::vector<std::string> specs = {
      "recall:method=oracle:budget=24,sinks=0,local=0,gran=query_head",
      "recall:method=oracle:budget=24,sinks=0,local=1", "recall:method=pqcache:budget=1000",
      "recall:method=snapkv:budget=24,window=4"};
  for (const std::string& spec : specs)
    unit.cells.push_back({spec, &probes.emplace_back(ProbeSpec::parse(spec))});
  const auto backend = make_cpu_backend(2);
  Engine engine(world.model, *backend, {});
  const UnitResult result =
      run_probes(engine, world.renderer, {.max_prompt_tokens = 4000, .max_new_tokens = 6}, unit);
  EXPECT_EQ(engine.memory().kv_bytes(), 0u) << "nothing is left behind";
  EXPECT_EQ(engine.memory().host_kv_bytes(), 0u);
  std::map<std::string, std::vector<double>> values;
  for (const ScoreValue& s : result.scores) {
    EXPECT_EQ(s.metric, "recall");
    values[s.cell].push_back(s.value);
  }
  ASSERT_EQ(values[specs[0]].size(), 2u);
  for (double x : values[specs[0]]) EXPECT_GT(x, 0.95) << "but for the current token";
  for (double x : values[specs[1]]) {
    EXPECT_GT(x, 0) << "the last tokens";
    EXPECT_LT(x, 0.95);
  }
  for (double x : values[specs[2]]) EXPECT_EQ(x, 1) << "everything is read";
  EXPECT_EQ(values.count(specs[3]), 0u) << "it selects nothing";
  for (const Record& r : result.records) {
    if (r.cell != specs[3]) continue;
    EXPECT_NE(r.error.find("with a selection"), std::string::npos);
  }
}

// A method that selects parts of a prompt also does so here: in the first two turns it reads
// everything, in later ones one earlier round.
TEST(Recall, CoversSelectionInPrompts) {
  const SmallWorld world;
  const Dialogue dialogue =
      make_tiny_dialogues(TinyTask::kFact, {.turns = 4, .length = 240, .count = 1, .seed = 3})[0];
  std::deque<ProbeSpec> probes;
  ProbeUnit unit{{&dialogue}, {}, Answers::kGold};
  for (const std::string spec :
       {"recall:method=round:lw=1", "output-error:method=round:lw=1", "coverage:eta=0.1"})
    unit.cells.push_back({spec, &probes.emplace_back(ProbeSpec::parse(spec))});
  const auto backend = make_cpu_backend(2);
  Engine engine(world.model, *backend, {});
  const UnitResult together =
      run_probes(engine, world.renderer, {.max_prompt_tokens = 4000, .max_new_tokens = 6}, unit);
  std::map<std::string, std::vector<double>> values;
  for (const ScoreValue& s : together.scores) values[s.cell].push_back(s.value);
  const std::vector<double>&recall = values["recall:method=round:lw=1"],
        &error = values["output-error:method=round:lw=1"];
  ASSERT_EQ(recall.size(), 4u);
  ASSERT_EQ(error.size(), 4u);
  for (const std::size_t turn : {0u, 1u}) {
    EXPECT_EQ(recall[turn], 1);
    EXPECT_EQ(error[turn], 0);
  }
  for (const std::size_t turn : {2u, 3u}) {
    EXPECT_LT(recall[turn], 1);
    EXPECT_GT(recall[turn], 0.25) << "the first layer reads everything";
    EXPECT_GT(error[turn], 0);
  }
  unit.cells.erase(unit.cells.begin(), unit.cells.begin() + 2);
  const UnitResult alone =
      run_probes(engine, world.renderer, {.max_prompt_tokens = 4000, .max_new_tokens = 6}, unit);
  ASSERT_EQ(alone.scores.size(), 4u);
  for (std::size_t i = 0; i < alone.scores.size(); ++i)
    EXPECT_EQ(alone.scores[i].value, values["coverage:eta=0.1"][i]) << "in one pass all the same";
}

}  // namespace
}  // namespace turnbench
