// The memory of a pass: the estimate before it and the measured value after it.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/json.h"
#include "conversation.h"
#include "inference/engine/memory_estimate.h"
#include "tests/backends/backend.h"
#include "tests/temporary_directory.h"

namespace turnbench {
namespace {

using namespace test;

struct Arithmetic {
  Math math;
  DType cache;
};

class MemoryOfStages : public testing::TestWithParam<std::tuple<std::size_t, Arithmetic>> {};

TEST_P(MemoryOfStages, IsPredictedForAPass) {
  const std::string geometry = TURNBENCH_SOURCE_DIR "/tests/bench/qwen2.5-0.5b-2-layers.json";
  Json config = parse_json(read_file(geometry), geometry);
  config["vocab_size"] = 1000;
  if (is_emulated()) config["intermediate_size"] = 1216;  // a quarter
  const TemporaryDirectory directory;
  const Checkpoint checkpoint =
      Checkpoint::open("random:" + directory.write("config.json", config.dump()));
  const auto [stage_count, arithmetic] = GetParam();
  const Math math = arithmetic.math;
  const auto loaders = make_backends(static_cast<int>(stage_count), 2);
  if (math != Math::kF32 && !loaders[0]->rows_are_independent())
    GTEST_SKIP() << "this backend has its own arithmetic";
  const Model model(checkpoint, pointers_to(loaders), DType::kBF16, math);
  const ModelConfig& c = model.config();
  std::vector<std::vector<int>> all = {{200}, {900}, {20, 300, 77}, {1, 1, 1, 1}};
  if (is_emulated()) all = {{80}, {20, 30, 7}, {1, 1, 1, 1}};
  for (const std::vector<int>& lengths : all) {
    for (int threads : {1, 2}) {
      if (is_emulated() && threads > 1) continue;
      const auto backends = make_backends(static_cast<int>(stage_count), threads);
      Engine engine(model, pointers_to(backends), {.kv_dtype = arithmetic.cache});
      std::vector<Sequence> sequences;
      std::vector<std::vector<int>> tokens;
      std::vector<Pass> passes;
      PassSize size{.math = with_cache(math, arithmetic.cache)};
      for (int n : lengths) {
        sequences.push_back(engine.make_sequence({}));
        tokens.push_back(synthetic_tokens(n, static_cast<std::uint64_t>(n)));
        size.rows += n;
        size.total_context += n;
        size.longest_context = std::max<std::int64_t>(size.longest_context, n);
        ++size.sequences;
      }
      for (std::size_t i = 0; i < lengths.size(); ++i)
        passes.push_back({.sequence = &sequences[i], .tokens = tokens[i], .prompt_end = true});
      engine.forward(passes);
      // The returned logits are additional to the logits of the engine.
      const std::size_t returned =
          size.sequences * static_cast<std::size_t>(c.vocab) * sizeof(float);
      const double said = static_cast<double>(workspace_bytes_of(
                       c, size, backends[0]->scratch_bytes(c, size), stage_count)),
                   found = static_cast<double>(engine.memory().workspace_bytes() + returned);
      EXPECT_LT(found, 1.1 * said) << lengths.size() << " of " << lengths[0];
      // The estimate for a GPU is an upper bound, and single rows need less than the estimate for
      // the strips of a prefill.
      if (lengths[0] > 1 && loaders[0]->rows_are_independent()) {
        EXPECT_GT(found, 0.9 * said) << lengths.size() << " of " << lengths[0];
      }
      std::size_t kv = 0;
      for (int n : lengths)
        kv += kv_bytes_of(sequences[0].at(0).kv.pool()->layout(), c.layers, c.kv_heads, n);
      EXPECT_EQ(kv, engine.memory().kv_bytes());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Count, MemoryOfStages,
                         testing::Combine(testing::Values(1, 2),
                                          testing::Values(Arithmetic{Math::kF32, DType::kF32},
                                                          Arithmetic{Math::kBF16, DType::kF32},
                                                          Arithmetic{Math::kBF16, DType::kBF16})));

}  // namespace
}  // namespace turnbench
