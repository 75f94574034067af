// The order in which workers run the units of a plan.

#include <gtest/gtest.h>

#include <map>

#include "harness/experiment/plan.h"

namespace turnbench::test {
namespace {

// At any time, about the same share of each cell's dialogues is done.
TEST(OrderOfUnits, FillsTheCellsOfATableEvenly) {
  const Plan plan =
      make_plan(resolve_experiment(parse_manifest(R"({"name": "m", "models": ["tiny"], "datasets": [
        {"name": "tiny-fact", "limit": 12, "length": 250},
        {"name": "tiny-list", "limit": 4, "length": 250}],
        "positions": ["begin", "end"], "methods": ["full", "h2o:budget=64"]})",
                                                  "m"),
                                   {}, 0));
  std::map<std::string, double> total, done;
  for (const Unit& unit : plan.units) ++total[unit.cells[0].key];
  ASSERT_EQ(total.size(), 4u);
  const std::vector<const Unit*> order = plan.units_of(0);
  ASSERT_EQ(order.size(), plan.units.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    ++done[order[i]->cells[0].key];
    const double share = static_cast<double>(i + 1) / static_cast<double>(order.size());
    for (const auto& [cell, units] : total)
      EXPECT_LE(std::abs(done[cell] / units - share), 1 / units) << cell << " after " << i + 1;
  }
}

}  // namespace
}  // namespace turnbench::test
