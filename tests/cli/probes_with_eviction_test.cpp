// Probes of a method that also evicts while it decodes.

#include <gtest/gtest.h>

#include "tests/cli/program.h"
#include "tests/harness/store/store_dump.h"

namespace turnbench::test {
namespace {

// With a rolling window, all slots behind the sinks get another token in each step.  The current
// token was not there before, so the overlap of 64 tokens is at most 63 of 64, and less with 65.
TEST(Probes, OverlapOfStepsIsThatOfTokensNotSlots) {
  const TemporaryDirectory d;
  const std::string db = d.path("s.db"), oracle = "oracle:budget=64,sinks=4,local=1";
  const std::string manifest = d.write("m.json", R"({"name": "overlap", "models": ["tiny"],
    "datasets": [{"name": "tiny-fact", "limit": 1, "length": 200, "turns": 1}], "max_new_tokens": 4,
    "probes": ["step-overlap:method=)" + oracle + R"(+streamingllm:budget=100"]})");
  ASSERT_EQ(run_program({"run", manifest, "--db", db}).code, 0);
  const Database store(db, Database::Mode::kReadOnly);
  Statement score = store.prepare("SELECT value FROM score");
  ASSERT_TRUE(score.next());
  EXPECT_GT(score.real(0), .5);
  EXPECT_LE(score.real(0), 64. / 65);
}

}  // namespace
}  // namespace turnbench::test
