// Greedy tokens on a real trained model, compared with transformers (full) and NVIDIA's kvpress, if
// `make smollm2` has created the model; see tests/golden/peers_smollm2.py.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/json.h"
#include "inference/engine/engine.h"
#include "inference/engine/sampler.h"
#include "methods/method.h"
#include "tests/backends/backend.h"

namespace turnbench {
namespace {

const std::string kRealModel = TURNBENCH_SOURCE_DIR "/models/smollm2";
const std::string kGreedyTokens = TURNBENCH_SOURCE_DIR "/tests/data/smollm2/greedy.json";

/// A prompt for a method, and the peer's answer to it.
struct GreedyCase {
  std::string method;
  int prompt;
  std::vector<int> want;
  Sequence sequence;
  std::vector<int> tokens = {};
};

std::vector<GreedyCase> greedy_cases(const Json& golden, const Engine& engine) {
  std::vector<GreedyCase> out;
  for (const Json& c : golden.at("cases")) {
    const auto method = c.at("method").get<std::string>();
    out.push_back({method, c.at("prompt").get<int>(), c.at("tokens").get<std::vector<int>>(),
                   engine.make_sequence(Method::parse(method).make())});
  }
  return out;
}

/// Prefills a prompt once for all its methods; their first token is the same.
void read_prompt(Engine& engine, const std::vector<int>& ids, int prompt,
                 std::vector<GreedyCase>& cases) {
  constexpr int kLargestWindow = 32;
  Sequence all = engine.make_sequence({}, kLargestWindow);
  Pass pass{.sequence = &all, .tokens = ids, .prompt_end = true};
  for (GreedyCase& c : cases)
    if (c.prompt == prompt) pass.forks.push_back(&c.sequence);
  const int first = argmax(engine.prefill({&pass, 1})[0]);
  for (GreedyCase& c : cases)
    if (c.prompt == prompt) c.tokens.push_back(first);
}

/// One more token of every answer, as one batch.
void step(Engine& engine, std::vector<GreedyCase>& cases) {
  std::vector<Pass> batch;
  for (GreedyCase& c : cases) {
    batch.push_back(
        {.sequence = &c.sequence, .tokens = {&c.tokens.back(), 1}, .kind = Pass::Kind::kDecode});
  }
  const std::vector<std::vector<float>> logits = engine.forward(batch);
  for (std::size_t i = 0; i < cases.size(); ++i) cases[i].tokens.push_back(argmax(logits[i]));
}

TEST(RealModel, GreedyTokensEqualTransformers) {
  if (!path_exists(kRealModel + "/model.safetensors"))
    GTEST_SKIP() << "no models/smollm2: make smollm2 makes it";
  if (test::is_emulated()) GTEST_SKIP() << "takes too long on emulated kernels";
  const Json golden = parse_json(read_file(kGreedyTokens), kGreedyTokens);
  const auto backend = test::make_backend(2);
  const Model model(Checkpoint::open(kRealModel), *backend, DType::kF32, Math::kF32);
  Engine engine(model, *backend, {});

  std::vector<GreedyCase> cases = greedy_cases(golden, engine);
  const auto prompts = golden.at("prompts").get<std::vector<std::vector<int>>>();
  for (std::size_t i = 0; i < prompts.size(); ++i)
    read_prompt(engine, prompts[i], static_cast<int>(i), cases);
  for (std::size_t n = 1; n < cases[0].want.size(); ++n) step(engine, cases);
  for (const GreedyCase& c : cases)
    EXPECT_EQ(c.tokens, c.want) << c.method << ", prompt " << c.prompt;
}

}  // namespace
}  // namespace turnbench
