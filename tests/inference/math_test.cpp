// Models whose products have factors of bf16.

#include <gtest/gtest.h>

#include "conversation.h"

namespace turnbench {
namespace {

using namespace test;

/// A model with weights of bf16, and such a cache unless `options` say otherwise.
struct Bf16Machine {
  Bf16Machine(const std::string& name, Math math, int threads,
              Engine::Options options = {.kv_dtype = DType::kBF16})
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
  const Engine::Options chunked{.kv_dtype = DType::kBF16, .prefill_chunk = 70};
  for (const char* name : {"llama3", "qwen3"}) {
    for (const Math math : {Math::kBF16Linear, Math::kBF16}) {
      SCOPED_TRACE(std::string(name) + ", " + std::string(name_of(math)));
      const std::vector<Logits> want = Bf16Machine(name, math, 1).logits(prompt, answer);
      ASSERT_EQ(want.size(), 4U);
      EXPECT_TRUE(all_finite(want.back()));
      EXPECT_EQ(Bf16Machine(name, math, 3, chunked).logits(prompt, answer), want);
      // Four single rows at a time, and eight, which AMX multiplies as tiles.
      for (const int others : {3, 7})
        EXPECT_EQ(Bf16Machine(name, math, 2).logits(prompt, answer, others), want);
    }
  }
}

TEST(Bf16Math, DiffersFromF32ByTheRoundingOfActivations) {
  SKIP_UNLESS_ROWS_ARE_INDEPENDENT();
  const std::vector<int> prompt = synthetic_tokens(300, 3);
  for (const char* name : {"llama3", "qwen3", "mistral"}) {
    const Logits f32 = Bf16Machine(name, Math::kF32, 2).logits(prompt, {})[0],
                 linear = Bf16Machine(name, Math::kBF16Linear, 2).logits(prompt, {})[0],
                 bf16 = Bf16Machine(name, Math::kBF16, 2).logits(prompt, {})[0];
    EXPECT_GT(distance(linear, f32), 1e-5) << name;
    EXPECT_GT(distance(bf16, linear), 1e-5) << name;
    EXPECT_LT(distance(linear, f32), 0.03) << name;  // a few units of 2^-8
    EXPECT_LT(distance(bf16, f32), 0.03) << name;
  }
}

// Keys that are float32 would have to be rounded again by each pass.
TEST(Bf16Math, LeavesAttentionOverOtherCachesInF32) {
  SKIP_UNLESS_ROWS_ARE_INDEPENDENT();
  const std::vector<int> prompt = synthetic_tokens(300, 4), answer = synthetic_tokens(2, 5);
  for (const DType cache : {DType::kF32, DType::kF16}) {
    const Engine::Options options{.kv_dtype = cache};
    EXPECT_EQ(Bf16Machine("llama3", Math::kBF16, 2, options).logits(prompt, answer),
              Bf16Machine("llama3", Math::kBF16Linear, 2, options).logits(prompt, answer))
        << name_of(cache);
  }
}

}  // namespace
}  // namespace turnbench
