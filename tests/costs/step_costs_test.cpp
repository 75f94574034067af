// Bounds of the operations of a decode step on a GPU, by method.  A test fails if a change adds a
// launch, a copy or a wait to each layer of each step.

#include "tests/costs/step_costs.h"

#include <gtest/gtest.h>

#include <iostream>

#include "tests/methods/settings.h"

namespace turnbench {
namespace {

using test::Cost, test::StepCost, test::Target;

/// A method, the current maximum of its steps, and the target for a layer.  The current numbers are
/// without `seconds`, which follow from the others.
struct Bound {
  const char* method;
  Cost layer, step;
  Target target;
};

// Each row: launches, graphs, their nodes; copies up, their bytes; copies down, their bytes; copies
// within the device; pageable ones; waits.  For methods with keys in host memory, the number of
// copies up depends on the selection, and so on rounding; their rows are a tenth higher than the
// counts.  The targets: five kernels per layer for `full` and for methods that only evict after
// prompts; at most 25 kernels and no wait for methods that select in steps; one more copy for keys
// in host memory, regardless of the number of tokens.
// clang-format off
const Bound kBounds[] = {
    {"full",
     {3, 1, 13, 3, 488, 0, 0, 0, 0, 0},
     {12, 4, 39, 12, 1532, 1, 512, 0, 0, 2}, {5, 0, 0}},
    {"snapkv:budget=24,window=4",
     {3, 1, 13, 3, 440, 0, 0, 0, 0, 0},
     {12, 4, 39, 12, 1388, 1, 512, 0, 0, 2}, {5, 0, 0}},
    {"h2o:budget=24",
     {8, 1, 13, 14, 3384, 2, 800, 0, 4, 4},
     {27, 4, 39, 45, 10220, 7, 2912, 0, 12, 14}, {25, 0, 0}},
    {"quest:budget=24,page=4,dense_layers=0",
     {6, 1, 13, 7, 2144, 1, 192, 1, 1, 3},
     {21, 4, 39, 24, 6548, 4, 1088, 3, 3, 11}, {25, 0, 0}},
    {"sparq:budget=24,r=4",
     {6, 1, 13, 10, 1472, 2, 664, 1, 1, 5},
     {21, 4, 39, 33, 4484, 7, 2504, 3, 3, 17}, {25, 0, 0}},
    {"pqcache:budget=24,sinks=2,placement=device",
     {8, 1, 13, 8, 1352, 1, 96, 1, 1, 3},
     {27, 4, 39, 27, 4124, 4, 800, 3, 3, 11}, {25, 0, 0}},
    {"pqcache:budget=24,sinks=2,placement=host",
     {8, 1, 13, 20, 3030, 5, 352, 1, 1, 7},
     {27, 4, 39, 63, 9140, 16, 1568, 3, 3, 23}, {25, 1, 0}},
    {"clusterkv:budget=24,sinks=2,dense_layers=0,cluster_tokens=8,window=4",
     {4, 1, 13, 442, 23400, 5, 1024, 0, 0, 7},
     {15, 4, 39, 1336, 71800, 16, 3584, 0, 0, 23}, {25, 1, 0}},
    {"specontext-self:budget=24,d=0",
     {3, 1, 13, 116, 5800, 4, 256, 0, 0, 4},
     {16, 4, 39, 244, 12900, 10, 1216, 1, 1, 13}, {25, 1, 0}},
    {"loopserve:budget=24,n_d=4,first=1",
     {3.75, 1, 13, 5.25, 3670, 1.5, 1832, 0, 1.5, 3.75},
     {14.25, 4, 39, 18.75, 11146, 5.5, 6008, 0, 4.5, 13.25}, {25, 0, 0}},
};
// clang-format on

/// Expects that no count exceeds `most`.
void expect_at_most(const Cost& got, const Cost& most) {
  for (const auto& [name, value] : test::kCosts) {
    if (value == &Cost::seconds) continue;
    EXPECT_LE(got.*value, most.*value + 0.01) << name;
  }
}

TEST(StepCosts, DoNotExceedTheRecordedCosts) {
  std::cout << test::table_head();
  for (const Bound& b : kBounds) {
    SCOPED_TRACE(b.method);
    const StepCost got = test::step_cost(b.method);
    std::cout << test::lines_of(b.method, got, b.target);
    {
      SCOPED_TRACE("a layer");
      expect_at_most(got.layer, b.layer);
    }
    SCOPED_TRACE("a step of three layers");
    expect_at_most(got.step, b.step);
  }
}

// Scores and top-k of all sequences run as one launch each.  Only quest and sparq have another
// launch for each sequence, which adds a token to its index.
TEST(StepCosts, SelectionsOfABatchShareTheirLaunches) {
  const std::pair<const char*, double> own_launches[] = {
      {"oracle:budget=24,sinks=2", 0},
      {"quest:budget=24,page=4,dense_layers=0", 1},
      {"sparq:budget=24,r=4", 1},
      {"pqcache:budget=24,sinks=2,placement=device", 0},
      {"shadowkv:budget=24,chunk=4,placement=device", 0}};
  for (const auto& [method, own] : own_launches) {
    SCOPED_TRACE(method);
    const StepCost one = test::step_cost(method), two = test::step_cost(method, 2);
    EXPECT_EQ(two.layer.launches, one.layer.launches + own);
  }
}

/// The methods that only evict, and only at the end of a prompt.
std::vector<std::string> evicting_after_prompts() {
  std::vector<std::string> out = {"h2o:budget=24,mode=prefill",
                                  "streamingllm:budget=24,rolling=false"};
  for (const MethodInfo& info : all_methods()) {
    std::string spec = test::spec_of(info, test::small_values(info));
    const Policies p = Method::parse(spec).make();
    if (p.eviction && !p.selection && !p.prefill && !p.evict_in_answers())
      out.push_back(std::move(spec));
  }
  return out;
}

// The steps of these methods are those of full attention over fewer tokens.
TEST(StepCosts, OfPromptEvictionsEqualFull) {
  const auto counts_of = [](Cost c) {  // bytes are those of page tables, which depend on the sets
    c.up_bytes = c.down_bytes = 0;
    return c;
  };
  const StepCost full = test::step_cost("full");
  const std::vector<std::string> methods = evicting_after_prompts();
  EXPECT_GE(methods.size(), 8u);
  for (const std::string& method : methods) {
    SCOPED_TRACE(method);
    const StepCost got = test::step_cost(method);
    expect_at_most(counts_of(got.layer), counts_of(full.layer));
    expect_at_most(counts_of(got.step), counts_of(full.step));
  }
}

}  // namespace
}  // namespace turnbench
