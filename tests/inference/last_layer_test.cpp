// The last layer computes only the rows that are read after it.

#include <gtest/gtest.h>

#include "conversation.h"
#include "test_policies.h"
#include "tests/backends/backend.h"

namespace turnbench {
namespace {

using namespace test;

Policies sparse() {
  Policies out;
  out.prefill = std::make_unique<ComputeLines>();
  return out;
}

/// The logits of the last rows of prompts that are computed as one batch; with `all`, of the same
/// prompts with the logits of all rows.
std::vector<Logits> last_rows(Machine& machine, const std::vector<std::vector<int>>& prompts,
                              Policies (*policies)(), bool all) {
  std::vector<Sequence> sequences;
  std::vector<Pass> passes;
  for (std::size_t i = 0; i < prompts.size(); ++i)
    sequences.push_back(machine.engine.make_sequence(policies(), 32));
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    passes.push_back(
        {.sequence = &sequences[i], .tokens = prompts[i], .prompt_end = true, .all_logits = all});
  }
  std::vector<Logits> out = machine.engine.prefill(passes);
  for (Logits& logits : out)
    logits.erase(logits.begin(), logits.end() - machine.model.config().vocab);
  return out;
}

TEST(LastLayer, GivesTheLogitsOfAllRows) {
  SKIP_UNLESS_ROWS_ARE_INDEPENDENT();
  const std::vector<std::vector<int>> prompts = {synthetic_tokens(300, 1), synthetic_tokens(1, 2),
                                                 synthetic_tokens(64, 3), synthetic_tokens(131, 4)};
  const auto dense = [] { return Policies(); };
  const auto columns = [] { return evicting<KeepByColumns>(30); };
  for (const char* name : {"llama3", "qwen2", "mistral"}) {
    SCOPED_TRACE(name);
    Machine machine(name), chunked(name, 2, {.prefill_chunk = 70});
    for (Policies (*policies)() : {+dense, &sparse, +columns})
      EXPECT_EQ(last_rows(machine, prompts, policies, false),
                last_rows(machine, prompts, policies, true));
    EXPECT_EQ(last_rows(chunked, prompts, dense, false), last_rows(machine, prompts, dense, true));
  }
}

TEST(LastLayer, LeavesOutRowsWithoutLogits) {
  Machine machine("llama3");
  const ModelConfig& c = machine.model.config();
  const int rows = is_emulated() ? 80 : 300;
  const double layers = c.layers, hidden = c.hidden,
               heads = static_cast<double>(c.heads) * c.head_dim;
  const double qkv = 2 * hidden * (heads + 2.0 * c.kv_heads * c.head_dim),
               others = 2 * hidden * (heads + 3.0 * c.ffn), head = 2 * hidden * c.vocab;
  const double pairs = 0.5 * rows * (rows + 1);
  const auto operations = [&](Policies (*policies)(), bool all) {
    const Operations before = machine.engine.operations();
    last_rows(machine, {synthetic_tokens(rows, 1)}, policies, all);
    Operations out = machine.engine.operations();
    out.linear -= before.linear;
    out.attention -= before.attention;
    return out;
  };
  const Operations whole = operations([] { return Policies(); }, true);
  EXPECT_EQ(whole.linear, rows * (layers * (qkv + others) + head));
  EXPECT_EQ(whole.attention, layers * 4 * heads * pairs);
  const Operations last = operations([] { return Policies(); }, false);
  EXPECT_EQ(last.linear, rows * (layers * qkv + (layers - 1) * others) + others + head);
  EXPECT_EQ(last.attention, machine.backend->leaves_out_rows()
                                ? 4 * heads * ((layers - 1) * pairs + rows)
                                : whole.attention);
  // Column masses read the attention of all rows.
  const Operations columns = operations([] { return evicting<KeepByColumns>(30); }, false);
  EXPECT_EQ(columns.linear, last.linear);
  EXPECT_EQ(columns.attention, whole.attention);
}

}  // namespace
}  // namespace turnbench
