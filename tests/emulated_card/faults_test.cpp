// The results of a sweep when a GPU runs out of memory or accesses an illegal address, with the
// whole program on the emulated GPU.

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/cli/program.h"

namespace turnbench {
namespace {

using test::Finished;

class FaultsOfACard : public testing::Test {
 protected:
  Finished run(const char* fault = nullptr, int n = 0, const test::Arguments& more = {}) {
    if (fault != nullptr) setenv(fault, std::to_string(n).c_str(), 1);
    test::Arguments arguments = {"run", manifest_, "--db", db_, "--device", "cuda"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Finished out = test::run_program(arguments);
    if (fault != nullptr) unsetenv(fault);
    return out;
  }
  test::TemporaryDirectory directory_;
  std::string manifest_ = directory_.write("faults.json", R"({
    "name": "faults", "models": ["tiny"],
    "datasets": [{"name": "tiny-fact", "limit": 2, "length": 150, "turns": 1}],
    "positions": ["end"], "methods": ["full", "snapkv:budget=48"],
    "tables": [{"rows": ["method"], "columns": ["position"]}]})");
  std::string db_ = directory_.path("faults.db");
};

TEST_F(FaultsOfACard, SweepIsCompleteWithoutFaults) {
  const Finished done = run();
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("| full |"), std::string::npos) << done.out;
}

// Weights are not allocated by a unit: a failure there ends the run; a failure in a unit becomes a
// record.
TEST_F(FaultsOfACard, FailedAllocationBecomesARecord) {
  bool recorded = false;
  for (int n = 1; n < 400 && !recorded; ++n) {
    SCOPED_TRACE(n);
    const Finished done = run("EMULATED_FAIL_ALLOCATION", n);
    ASSERT_LE(done.code, 1) << done.err;
    if (done.code == 0) break;
    EXPECT_NE(done.err.find("MiB"), std::string::npos) << done.err;
    recorded = done.out.find("| full |") != std::string::npos;
  }
  EXPECT_TRUE(recorded) << "no allocation failed in a unit";
  const Finished retried = run(nullptr, 0, {"--retry"});
  EXPECT_EQ(retried.code, 0) << retried.err;
}

TEST_F(FaultsOfACard, IllegalAddressBecomesARecordAndEndsTheSweep) {
  for (const int n : {300, 2}) {
    SCOPED_TRACE(n);
    const Finished done = run("EMULATED_FAIL_LAUNCH", n);
    EXPECT_EQ(done.code, 1) << done.err;
    EXPECT_NE(done.err.find("an illegal memory access was encountered; the device is lost"),
              std::string::npos)
        << done.err;
    EXPECT_NE(done.out.find("| full |"), std::string::npos) << done.out;
    EXPECT_NE(test::run_program({"status", db_}).code, 0);
  }
  const Finished retried = run(nullptr, 0, {"--retry"});
  EXPECT_EQ(retried.code, 0) << retried.err;
  EXPECT_EQ(test::run_program({"status", db_}).code, 0);
}

}  // namespace
}  // namespace turnbench
