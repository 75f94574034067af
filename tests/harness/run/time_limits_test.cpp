// Time limits of units in worker processes.

#include "runners/time_limits.h"

#include <gtest/gtest.h>

#include "harness/experiment/shards.h"

namespace turnbench::test {
namespace {

using std::chrono::seconds;

class TimeLimit : public testing::Test {
 protected:
  /// A unit that began some seconds ago.
  HeldUnit held(std::size_t unit, int seconds_ago) const {
    HeldUnit out;
    out.unit = plan_.units.at(unit);
    out.since = Clock::now() - seconds(seconds_ago);
    return out;
  }
  double cost(std::size_t unit) {
    return static_cast<double>(relative_cost(plan_, plan_.units.at(unit), lengths_));
  }

  const Plan plan_ = make_plan(
      resolve_experiment(parse_manifest(R"({"name": "m", "models": ["tiny"], "max_new_tokens": 4,
        "datasets": [{"name": "tiny-fact", "limit": 3, "length": 100, "turns": 1}],
        "positions": ["end"], "methods": ["full"]})",
                                        "m"),
                         {}, 0));
  PlannedLengths lengths_{plan_};
  const RunOptions options_{.least_time_limit = seconds(100), .time_tolerance = 2};
  TimeLimits limits_{plan_, options_, lengths_};
};

TEST_F(TimeLimit, IsAtLeastTheLeastOne) {
  limits_.add_ended(held(0, 0));
  std::map<std::string, HeldUnit> units;
  EXPECT_FALSE(limits_.exceeded(units));
  units["a"] = held(1, 99);
  EXPECT_FALSE(limits_.exceeded(units));
  EXPECT_FALSE(units["a"].limit_seconds) << "estimated before it was needed";
  units["a"] = held(1, 101);
  EXPECT_TRUE(limits_.exceeded(units));
}

TEST_F(TimeLimit, GrowsWithTheSlowestUnitThatEndedLately) {
  limits_.add_ended(held(0, 1));
  limits_.add_ended(held(2, 600));
  std::map<std::string, HeldUnit> units;
  const double limit = 100 + 2 * 600 * cost(1) / cost(2);
  units["a"] = held(1, static_cast<int>(limit) - 5);
  EXPECT_FALSE(limits_.exceeded(units));
  units["a"] = held(1, static_cast<int>(limit) + 5);
  const std::optional<double> exceeded = limits_.exceeded(units);
  ASSERT_TRUE(exceeded);
  EXPECT_NEAR(*exceeded, limit, 1);
  for (int i = 0; i < 64; ++i) limits_.add_ended(held(0, 1));
  units["a"] = held(1, 300);
  EXPECT_TRUE(limits_.exceeded(units)) << "by a unit that ended long ago";
}

TEST_F(TimeLimit, IsTheSumOfThoseOfUnitsThatRunTogether) {
  limits_.add_ended(held(0, 0));
  std::map<std::string, HeldUnit> units;
  units["a"] = held(1, 195);
  units["b"] = held(2, 0);
  EXPECT_FALSE(limits_.exceeded(units));
  units["a"] = held(1, 205);
  EXPECT_TRUE(limits_.exceeded(units));
}

}  // namespace
}  // namespace turnbench::test
