// Values of probes for known selections.

#include <gtest/gtest.h>

#include "tests/methods/prescribed.h"
#include "tests/probes/observe.h"

namespace turnbench::test {
namespace {

/// Two query heads of one KV head; their last row is that of the step.
PrescribedLayer step_layer() {
  const Rows first = rows_like({.5, .2, .2}), second = rows_like({.1, .6, .1});
  return PrescribedLayer({first, second}, 1, 1);
}

double after(const std::string& spec, const std::vector<Selection>& steps) {
  PrescribedLayer layer = step_layer();
  const auto probe = ProbeSpec::parse(spec).make();
  probe->begin(layer.dialogue);
  for (const Selection& selection : steps) {
    const LayerView view = layer.view();
    probe->observe_selection(view, selection);
  }
  probe->end();
  const ProbeResult out = probe->results().at(0);
  return out.missing.empty() ? out.value : -1;
}

TEST(SelectedMass, WorkedExample) {
  // Rows of four probabilities: (.5, .2, .2, .1) and (.1, .6, .1, .2).
  const std::string spec = "selected-mass:method=oracle";
  EXPECT_NEAR(after(spec, {{{{0, 3}}}}), (.6 + .3) / 2, 1e-6);
  EXPECT_NEAR(after(spec, {{{{0, 3}, {1, 3}}}}), (.6 + .8) / 2, 1e-6) << "a list for each head";
  EXPECT_NEAR(after(spec, {{{{0, 3}}}, {}}), (.45 + 1) / 2, 1e-6) << "no lists: everything";
  EXPECT_EQ(after(spec, {}), -1);
}

TEST(StepOverlap, WorkedExample) {
  const std::string spec = "step-overlap:method=oracle";
  EXPECT_EQ(after(spec, {{{{0, 1, 3}}}}), -1) << "one step has none before it";
  EXPECT_NEAR(after(spec, {{{{0, 1}}}, {{{0, 1, 2, 3}}}, {{{0, 1, 2}}}}), (.5 + 1) / 2, 1e-12);
  EXPECT_NEAR(after(spec, {{{{0, 3}, {1, 3}}}, {{{1, 2}, {1, 3}}}}), .5, 1e-12);
  EXPECT_EQ(after(spec, {{{{0, 1, 3}}}, {}, {{{0, 1, 3}}}}), -1) << "all is read in between";
}

}  // namespace
}  // namespace turnbench::test
