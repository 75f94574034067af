// Models whose linear layers multiply bf16.

#include <gtest/gtest.h>

#include "conversation.h"

namespace turnbench {
namespace {

using namespace test;

/// A model with weights of bf16.
struct Bf16Machine {
  Bf16Machine(const std::string& name, Math math, int threads, Engine::Options options = {})
      : backend(test::make_backend(threads)),
        model(small_checkpoint(name), *backend, DType::kBF16, math),
        engine(model, *backend, options) {}

  /// The logits after a prompt and after each token of an answer.  `others` sequences pass through
  /// the engine together with it.
  std::vector<Logits> logits(const std::vector<int>& prompt, const std::vector<int>& answer,
                             int others = 0) {
    std::vector<Sequence> sequences;
    for (int i = 0; i <= others; ++i) sequences.push_back(engine.make_sequence({}));
    std::vector<Logits> out;
    const auto pass = [&](std::span<const int> tokens, Pass::Kind kind) {
      std::vector<Pass> passes;
      for (Sequence& s : sequences)
        passes.push_back({.sequence = &s,
                          .tokens = tokens,
                          .kind = kind,
                          .prompt_end = kind != Pass::Kind::kDecode});
      out.push_back(engine.forward(passes).back());
    };
    pass(prompt, Pass::Kind::kPrefill);
    for (const int& token : answer) pass({&token, 1}, Pass::Kind::kDecode);
    return out;
  }

  std::unique_ptr<Backend> backend;
  Model model;
  Engine engine;
};

TEST(Bf16Math, HasTheSameBitsForAllThreadsChunksAndBatches) {
  SKIP_UNLESS_ROWS_ARE_INDEPENDENT();
  const std::vector<int> prompt = synthetic_tokens(500, 1), answer = synthetic_tokens(3, 2);
  for (const char* name : {"llama3", "qwen3"}) {
    const std::vector<Logits> want = Bf16Machine(name, Math::kBF16, 1).logits(prompt, answer);
    ASSERT_EQ(want.size(), 4U);
    EXPECT_TRUE(all_finite(want.back()));
    EXPECT_EQ(Bf16Machine(name, Math::kBF16, 3, {.prefill_chunk = 70}).logits(prompt, answer), want)
        << name;
    // Four single rows at a time, and eight, which AMX multiplies as tiles.
    for (const int others : {3, 7}) {
      EXPECT_EQ(Bf16Machine(name, Math::kBF16, 2).logits(prompt, answer, others), want) << name;
    }
  }
}

TEST(Bf16Math, DiffersFromF32ByTheRoundingOfActivations) {
  SKIP_UNLESS_ROWS_ARE_INDEPENDENT();
  const std::vector<int> prompt = synthetic_tokens(300, 3);
  for (const char* name : {"llama3", "qwen3", "mistral"}) {
    const Logits f32 = Bf16Machine(name, Math::kF32, 2).logits(prompt, {})[0],
                 bf16 = Bf16Machine(name, Math::kBF16, 2).logits(prompt, {})[0];
    EXPECT_GT(distance(bf16, f32), 1e-5) << name;
    EXPECT_LT(distance(bf16, f32), 0.03) << name;  // a few units of 2^-8
  }
}

}  // namespace
}  // namespace turnbench
