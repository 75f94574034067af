// method pqcache fit-costs: pqcache reads its number of iterations from the file that the command
// writes.

#include <gtest/gtest.h>

#include "common/file.h"
#include "methods/parts/cluster_costs.h"
#include "tests/cli/program.h"

namespace turnbench::test {
namespace {

TEST(FitCosts, WritesAFileForPqcache) {
  const TemporaryDirectory d;
  const std::string file = d.path("costs.json");
  const Finished run = run_program({"method", "pqcache", "fit-costs", "--model", "tiny", "--tokens",
                                    "64,600,2400", "--repeats", "1", "-o", file, "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  const Json json = run.json();
  EXPECT_EQ(json["file"], file);
  EXPECT_EQ(json["iterations"]["8192"], ClusterCosts::load(file).iterations(8192));
  const Finished answer =
      run_program({"generate", "--model", "tiny", "--ids", "1,2,3", "--method",
                   "pqcache:max_iter=0,costs=" + file, "--max-tokens", "2", "--json"});
  EXPECT_EQ(answer.code, 0) << answer.err;
}

TEST(FitCosts, RejectsTimesThatCannotBeFitted) {
  const TemporaryDirectory d;
  const auto error = [&](const std::string& tokens) {
    const Finished run = run_program({"method", "pqcache", "fit-costs", "--model", "tiny",
                                      "--tokens", tokens, "-o", d.path("x.json")});
    EXPECT_EQ(run.code, 2);
    return run.err;
  };
  EXPECT_NE(error("512,1024,512").find("expected at least three lengths"), std::string::npos);
  EXPECT_NE(error("64,128,2000000").find("found 2000000, expected at most the model's"),
            std::string::npos);
  EXPECT_NE(error("63,100,200").find("whole numbers from 64 on"), std::string::npos);
}

}  // namespace
}  // namespace turnbench::test
