#include "methods/parts/cluster_costs.h"

#include <gtest/gtest.h>

#include "common/file.h"
#include "methods/method.h"
#include "tests/message_of.h"
#include "tests/temporary_directory.h"

namespace turnbench {
namespace {

// A worked example of equation 3: 6.94 iterations.
TEST(ClusterCosts, AreSolvedForIterations) {
  const ClusterCosts costs{4e-4, 2.5e-6, 5e-11, 1e-3, 5e-7};
  EXPECT_EQ(costs.iterations(20'000), 6);
  EXPECT_EQ(costs.iterations(100), 3) << "at least";
  EXPECT_EQ((ClusterCosts{0, 1, 0, 0, 1e-6}).iterations(1000), 300) << "at most";
}

TEST(ClusterCosts, AreStoredInAFile) {
  const test::TemporaryDirectory directory;
  const auto path = directory.path() / "costs.json";
  const ClusterCosts costs{4e-4, 2.5e-6, 5e-11, 1e-3, 5e-7};
  write_file(path, costs.json());
  EXPECT_EQ(ClusterCosts::load(path).iterations(20'000), 6);
  const std::string spec = "pqcache:max_iter=0,costs=" + path.string();
  EXPECT_NE(Method::parse(spec).canonical().find("costs.json#"), std::string::npos);

  write_file(path, R"({"prefill_base": 1, "prefill_token": 1, "prefill_pair": 1,
                       "cluster_base": 1, "cluster_token": 0})");
  EXPECT_NE(test::message_of([&] { ClusterCosts::load(path); }).find("/cluster_token: found 0"),
            std::string::npos);
}

TEST(ClusterCosts, ReplaceAFixedNumberOfIterations) {
  for (const char* spec : {"pqcache:max_iter=0", "pqcache:max_iter=5,costs=/dev/null"}) {
    EXPECT_NE(test::message_of([&] { Method::parse(spec); }).find("expected max_iter=0 with them"),
              std::string::npos)
        << spec;
  }
}

}  // namespace
}  // namespace turnbench
