// Whole decode steps that are repeated with graphs.

#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <random>

#include "inference/cuda/cuda_backend.h"
#include "inference/engine/engine.h"
#include "tests/cuda/orders.h"
#ifdef TURNBENCH_EMULATED
#include "tests/cuda/emulation/counters.h"
#endif

namespace turnbench {
namespace {

/// Biases and norms of heads: all optional parts of a layer.
ModelConfig small_config() {
  ModelConfig c;
  c.family = "qwen3";
  c.hidden = 48;
  c.layers = 3;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 16;
  c.ffn = 80;
  c.vocab = 60;
  c.max_positions = 1024;
  c.qkv_bias = c.out_bias = c.mlp_bias = c.qk_norm = true;
  c.sliding_window.assign(3, 0);
  return c;
}

/// Drops the oldest token at every step and shifts the positions of the others, for which unrotated
/// keys are cached.
struct DropOldest : EvictionPolicy {
  std::unique_ptr<EvictionPolicy> clone() const override { return std::make_unique<DropOldest>(); }
  bool shifts_positions() const override { return true; }
  bool evicts_in_answers() const override { return true; }
  KeepSets after_prefill(const LayerView&) override { return {}; }
  KeepSets after_decode(const LayerView& view) override {
    std::vector<std::int32_t> rest(static_cast<std::size_t>(view.sets[0].size() - 1));
    std::iota(rest.begin(), rest.end(), 1);
    return {std::vector(view.sets.size(), rest)};
  }
};

/// Three sequences, the last of which drops its oldest tokens.
struct Talks {
  explicit Talks(Engine& engine) {
    std::vector<Pass> prompts;
    for (int length : {50, 63, 20}) {  // the first two reach another page in different steps
      Policies policies;
      if (sequences.size() == 2) policies.eviction = std::make_unique<DropOldest>();
      sequences.push_back(engine.make_sequence(std::move(policies)));
      for (int i = 0; i < length; ++i) prompts_[sequences.size() - 1].push_back(draw());
    }
    for (std::size_t i = 0; i < sequences.size(); ++i)
      prompts.push_back({.sequence = &sequences[i], .tokens = prompts_[i], .prompt_end = true});
    engine.prefill(prompts);
  }

  /// Logits of one more token for each of some sequences.
  std::vector<std::vector<float>> step(Engine& engine, const std::vector<std::size_t>& which) {
    const int tokens[] = {draw(), draw(), draw()};
    std::vector<Pass> passes;
    for (std::size_t i : which) {
      passes.push_back(
          {.sequence = &sequences[i], .tokens = {&tokens[i], 1}, .kind = Pass::Kind::kDecode});
    }
    return engine.forward(passes);
  }

  std::vector<Sequence> sequences;

 private:
  int draw() { return static_cast<int>(random_() % 60); }

  std::mt19937_64 random_{1};
  std::vector<int> prompts_[3];
};

/// Graphs launched so far, if they are counted.
std::optional<std::size_t> graph_launches() {
#ifdef TURNBENCH_EMULATED
  return emulation::counters(0).graph_launches + emulation::counters(1).graph_launches;
#else
  return {};
#endif
}

/// Also decodes with engines that exist for one step only and therefore repeat nothing.
void expect_the_same_bits(DType dtype, std::span<Backend* const> backends) {
  SCOPED_TRACE(name_of(dtype));
  Checkpoint checkpoint;
  checkpoint.config = small_config();
  const Model model(checkpoint, backends, dtype, Math::kF32);
  Engine engine(model, backends, {}), first(model, backends, {});
  Talks repeated(engine), plain(first);
  std::optional<std::size_t> launches = graph_launches();
  for (int step = 0; step < 28; ++step) {
    const std::vector<std::size_t> which = step < 8    ? std::vector<std::size_t>{0, 1, 2}
                                           : step < 14 ? std::vector<std::size_t>{0, 1}
                                           : step < 20 ? std::vector<std::size_t>{0}
                                                       : std::vector<std::size_t>{step % 2 * 2u};
    Engine own(model, backends, {});
    const auto found = repeated.step(engine, which), wanted = plain.step(own, which);
    ASSERT_EQ(found.size(), which.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(test::same_bits(found[i], wanted[i])) << "step " << step << ", pass " << i;
    if (!launches) continue;
    // All steps except the first of its kind launch graphs: for each backend, one graph more than
    // layers.
    const bool is_new = step == 0 || step == 8 || step == 14 || step == 21;
    *launches += is_new ? 0 : 3 + backends.size();
    EXPECT_EQ(graph_launches(), launches) << "step " << step;
  }
  EXPECT_EQ(repeated.sequences[2].sets(0)[0].size(), 20) << "nothing was dropped";
}

TEST(RepeatedDecoding, HasTheSameBits) {
  // On a machine with one GPU, this GPU holds both stages.
  const auto one = cuda::make_backend(0, 2),
             other = cuda::make_backend(cuda::device_count() - 1, 2);
  Backend* const backends[] = {one.get(), other.get()};
  expect_the_same_bits(DType::kF32, {backends, 1});
  expect_the_same_bits(DType::kBF16, backends);
}

}  // namespace
}  // namespace turnbench
