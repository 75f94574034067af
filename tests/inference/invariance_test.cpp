// An answer is bit-identical for every way to compute it: threads, other sequences, chunks, forks
// and continuations are drawn at random and compared with a sequence that is computed alone, at
// once, on one thread.

#include <gtest/gtest.h>

#include "conversation.h"
#include "tests/parameter_name.h"

namespace turnbench {
namespace {

using namespace test;

constexpr int kSteps = 3;

/// The results of a dialogue's prompts and answers: the logits after each prompt and each step.
using Trace = std::vector<Logits>;

/// Two prompts, each followed by a few tokens of a given answer.
struct Script {
  std::vector<int> prompt[2];
  std::vector<int> answer[2];
};

Script draw_script(std::mt19937_64& random) {
  Script out;
  for (int turn = 0; turn < 2; ++turn) {
    out.prompt[turn] = synthetic_tokens(1 + static_cast<int>(random() % 300), random());
    out.answer[turn] = synthetic_tokens(kSteps, random());
  }
  return out;
}

Trace alone(Engine& engine, const Script& script) {
  Trace out;
  Sequence s = engine.make_sequence({});
  for (int turn = 0; turn < 2; ++turn) {
    const Pass prompt{.sequence = &s, .tokens = script.prompt[turn], .prompt_end = true};
    out.push_back(engine.forward({&prompt, 1})[0]);
    for (const int& token : script.answer[turn]) {
      const Pass step{.sequence = &s, .tokens = {&token, 1}, .kind = Pass::Kind::kDecode};
      out.push_back(engine.forward({&step, 1})[0]);
    }
  }
  return out;
}

/// All scripts as one batch, in the engine's chunks.  If `forks` is set for a sequence, it
/// continues as a fork of itself, and the original, which still exists, reads other tokens.
std::vector<Trace> together(Engine& engine, const std::vector<Script>& scripts,
                            const std::vector<bool>& forks) {
  std::vector<Trace> out(scripts.size());
  std::vector<Sequence> sequences, originals;
  for (std::size_t i = 0; i < scripts.size(); ++i) sequences.push_back(engine.make_sequence({}));
  for (int turn = 0; turn < 2; ++turn) {
    std::vector<Pass> prompts;
    for (std::size_t i = 0; i < scripts.size(); ++i) {
      prompts.push_back(
          {.sequence = &sequences[i], .tokens = scripts[i].prompt[turn], .prompt_end = true});
    }
    const auto logits = engine.prefill(prompts);
    for (std::size_t i = 0; i < scripts.size(); ++i) {
      out[i].push_back(logits[i]);
      if (!forks[i]) continue;
      Sequence fork = sequences[i].fork();
      std::swap(fork, sequences[i]);
      originals.push_back(std::move(fork));
      const int other = 5;
      const Pass aside{
          .sequence = &originals.back(), .tokens = {&other, 1}, .kind = Pass::Kind::kDecode};
      engine.forward({&aside, 1});
    }
    for (int k = 0; k < kSteps; ++k) {
      std::vector<Pass> steps;
      for (std::size_t i = 0; i < scripts.size(); ++i) {
        steps.push_back({.sequence = &sequences[i],
                         .tokens = {&scripts[i].answer[turn][k], 1},
                         .kind = Pass::Kind::kDecode});
      }
      const auto next = engine.forward(steps);
      for (std::size_t i = 0; i < scripts.size(); ++i) out[i].push_back(next[i]);
    }
  }
  return out;
}

class Invariance : public testing::TestWithParam<std::string> {};

TEST_P(Invariance, ResultsDependOnTokensOnly) {
  std::mt19937_64 random(20);
  for (DType kv : {DType::kF32, DType::kBF16}) {
    Machine plain(GetParam(), 1, {.kv_dtype = kv});
    for (int threads : {1, 2, 3, 8}) {
      const int chunk = kPageTokens * (1 + static_cast<int>(random() % 4));
      const auto batch = static_cast<std::size_t>(1 + random() % 16);
      Machine machine(GetParam(), threads,
                      {.kv_dtype = kv, .prefill_chunk = chunk, .max_rows = 64 + chunk});
      std::vector<Script> scripts;
      std::vector<bool> forks;
      for (std::size_t i = 0; i < batch; ++i) {
        scripts.push_back(draw_script(random));
        forks.push_back(random() % 2 == 0);
      }
      const std::vector<Trace> got = together(machine.engine, scripts, forks);
      for (std::size_t i = 0; i < batch; ++i) {
        ASSERT_EQ(got[i], alone(plain.engine, scripts[i]))
            << threads << " threads, batch " << batch << ", chunk " << chunk << ", sequence " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Invariance,
                         testing::Values("llama2", "llama3", "mistral", "qwen2", "qwen2-yarn",
                                         "qwen3"),
                         parameter_name);

}  // namespace
}  // namespace turnbench
