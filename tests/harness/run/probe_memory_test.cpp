// The memory that probe runs count: that of full attention and of the method.

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "harness/run/probe_unit.h"
#include "inference/engine/memory_estimate.h"
#include "tests/harness/run/small_world.h"

namespace turnbench {
namespace {

using namespace test;

class ProbeMemory : public testing::Test {
 protected:
  /// The smallest --memory-limit, in bytes, with which a probe has a value for the method.
  std::size_t least_limit(const std::string& method) {
    const ProbeSpec probe = ProbeSpec::parse("recall:method=" + method);
    const auto fits = [&](std::size_t limit) {
      const auto backend = make_cpu_backend(1);
      Engine engine(world_.model, *backend, {.memory_limit = limit});
      const UnitResult result =
          run_probes(engine, world_.renderer, {.max_prompt_tokens = 4000, .max_new_tokens = 2},
                     {{&dialogue_}, {{method, &probe}}, Answers::kGold});
      const Record& record = result.records.at(0);
      EXPECT_NE(record.status, Record::Status::kError) << record.error;
      if (record.status != Record::Status::kOk) return false;
      prompt_tokens_ = record.prompt_tokens;
      return true;
    };
    std::size_t low = world_.model.weight_bytes(), high = low + (std::size_t{64} << 20);
    EXPECT_TRUE(fits(high)) << method;
    while (high - low > 1) {
      const std::size_t middle = low + (high - low) / 2;
      (fits(middle) ? high : low) = middle;
    }
    return high;
  }

  /// The estimate of the method's policies, in addition to the pages of the prompt.
  std::size_t expected(const std::string& method) const {
    const ModelConfig& c = world_.model.config();
    const AnswerNeeds needs =
        answer_needs(Method::parse(method).make(), {c.layers, c.heads, c.kv_heads, c.head_dim},
                     {c.head_dim, DType::kF32, false}, c.kv_heads, prompt_tokens_, prompt_tokens_);
    return needs.working_sets + needs.index;
  }

  const SmallWorld world_;
  const Dialogue dialogue_ =
      make_tiny_dialogues(TinyTask::kFact, {.turns = 1, .length = 600, .count = 1, .seed = 3})[0];
  int prompt_tokens_ = 0;
};

TEST_F(ProbeMemory, IncludesTheMethodsDemand) {
  // An index on the device, and none; codes and working sets of two sizes.
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"quest:budget=64,dense_layers=0", "oracle:budget=64"},
      {"pqcache:budget=256,m=4", "pqcache:budget=64,m=2"}};
  for (const auto& [larger, smaller] : pairs) {
    const std::size_t of_larger = least_limit(larger), of_smaller = least_limit(smaller);
    ASSERT_GT(expected(larger), expected(smaller));
    EXPECT_EQ(of_larger - of_smaller, expected(larger) - expected(smaller)) << larger;
  }
}

}  // namespace
}  // namespace turnbench
