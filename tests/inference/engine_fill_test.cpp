// Sequences whose prompt is filled with synthetic data instead of a prefill.

#include <gtest/gtest.h>

#include "conversation.h"

namespace turnbench {
namespace {

using namespace test;

/// Keeps the last `budget` tokens.
struct KeepLast : EvictionPolicy {
  explicit KeepLast(int budget) : budget(budget) {}
  std::unique_ptr<EvictionPolicy> clone() const override {
    return std::make_unique<KeepLast>(*this);
  }
  int window() const override { return 4; }
  KeepSets after_prefill(const LayerView& view) override {
    EXPECT_EQ(view.stats.window_rows(4), 4);
    const int n = view.sets[0].size();
    std::vector<std::int32_t> last;
    for (int j = n - budget; j < n; ++j) last.push_back(j);
    return {std::vector(view.sets.size(), last)};
  }
  int budget;
};

Logits decode(Engine& engine, Sequence& sequence) {
  const int token = 9;
  const Pass pass{.sequence = &sequence, .tokens = {&token, 1}, .kind = Pass::Kind::kDecode};
  return engine.forward({&pass, 1})[0];
}

TEST(EngineFill, LooksLikeAPrompt) {
  Machine machine("qwen2");
  const std::vector<int> tokens = synthetic_tokens(100, 1);
  Sequence filled = machine.engine.make_sequence({});
  machine.engine.fill_random_kv(filled, tokens, {}, 7);
  EXPECT_EQ(filled.tokens, tokens);
  EXPECT_EQ(filled.next_position, 100);
  EXPECT_EQ(filled.prompt_tokens, 100);
  for (int l = 0; l < machine.engine.shape().layers; ++l) {
    for (const KvHeadCache& set : filled.sets(l)) {
      EXPECT_EQ(set.size(), 100);
      EXPECT_TRUE(set.is_contiguous());
    }
  }
  Sequence again = machine.engine.make_sequence({}), other = machine.engine.make_sequence({});
  machine.engine.fill_random_kv(again, tokens, {}, 7);
  machine.engine.fill_random_kv(other, tokens, {}, 8);
  const Logits logits = decode(machine.engine, filled);
  EXPECT_EQ(logits, decode(machine.engine, again));
  EXPECT_NE(logits, decode(machine.engine, other)) << "what is cached is read";
  EXPECT_EQ(filled.counters.mean_attended(), 101);
}

TEST(EngineFill, PoliciesRunAsAfterAPrompt) {
  Machine machine("qwen2");
  Policies policies;
  policies.eviction = std::make_unique<KeepLast>(10);
  Sequence sequence = machine.engine.make_sequence(std::move(policies));
  machine.engine.fill_random_kv(sequence, synthetic_tokens(100, 1), {}, 7);
  EXPECT_EQ(sequence.mean_tokens(), 10);
  decode(machine.engine, sequence);
  EXPECT_EQ(sequence.counters.mean_attended(), 11);
}

}  // namespace
}  // namespace turnbench
