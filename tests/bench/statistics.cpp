// What a method's statistics cost: a prefill of 8K tokens on layers of the 0.5B geometry with the
// method against the same prefill without it.

#include <benchmark/benchmark.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>

#include "inference/engine.h"
#include "methods/method.h"

namespace turnbench {
namespace {

constexpr int kTokens = 8192;

/// Two layers of the geometry of Qwen2.5-0.5B, whose layers are alike, with random weights.
std::string half_billion() {
  const auto path = std::filesystem::temp_directory_path() / "turnbench-bench-0.5b.json";
  std::ofstream(path) << R"({"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864,
    "num_hidden_layers": 2, "num_attention_heads": 14, "num_key_value_heads": 2,
    "vocab_size": 1024, "rope_theta": 1000000.0, "rms_norm_eps": 1e-6,
    "max_position_embeddings": 32768, "tie_word_embeddings": true})";
  return "random:" + path.string();
}

class Machine {
 public:
  Machine()
      : backend_(make_cpu_backend(1)),
        model_(Checkpoint::open(half_billion()), *backend_, DType::kF32),
        engine_(model_, *backend_, {}) {
    std::mt19937 random(1);
    for (int i = 0; i < kTokens; ++i) tokens_.push_back(static_cast<int>(random() % 1024));
    dialogue_.seed = 1;
    dialogue_.token_text = [](int token) { return token % 16 == 0 ? "." : " word"; };
    dialogue_.spans = spans_;
  }

  /// Processor seconds of a prefill: on a busy machine they say more than the clock on the wall.
  double prefill(Policies policies) {
    Sequence sequence = engine_.make_sequence(std::move(policies));
    const Pass pass{
        .sequence = &sequence, .tokens = tokens_, .dialogue = &dialogue_, .prompt_end = true};
    const std::clock_t start = std::clock();
    engine_.prefill({&pass, 1});
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  }

 private:
  std::unique_ptr<Backend> backend_;
  Model model_;
  Engine engine_;
  std::vector<int> tokens_;
  std::vector<Span> spans_ = {{SpanKind::kContext, 0, 0, kTokens - 64},
                              {SpanKind::kQuestion, 0, kTokens - 64, kTokens}};
  DialogueView dialogue_;
};

void Statistics(benchmark::State& state, const char* spec) {
  Machine machine;
  machine.prefill({});  // memory is touched once
  double dense = 0, with_method = 0;
  for (auto _ : state) {
    dense += machine.prefill({});
    const double mine = machine.prefill(Method::parse(spec).make());
    with_method += mine;
    state.SetIterationTime(mine);
  }
  state.counters["added to dense"] = with_method / dense - 1;
}

#define TURNBENCH_STATISTICS(name, spec)    \
  BENCHMARK_CAPTURE(Statistics, name, spec) \
      ->UseManualTime()                     \
      ->Iterations(3)                       \
      ->Unit(benchmark::kMillisecond)
TURNBENCH_STATISTICS(8k_streamingllm, "streamingllm");
TURNBENCH_STATISTICS(8k_snapkv, "snapkv");
TURNBENCH_STATISTICS(8k_pyramidkv, "pyramidkv");
TURNBENCH_STATISTICS(8k_adakv, "adakv");
TURNBENCH_STATISTICS(8k_ada_pyramidkv, "ada-pyramidkv");
TURNBENCH_STATISTICS(8k_chunkkv, "chunkkv");
TURNBENCH_STATISTICS(8k_sentencekv, "sentencekv");
TURNBENCH_STATISTICS(8k_sablock, "sablock");
TURNBENCH_STATISTICS(8k_tova, "tova");
TURNBENCH_STATISTICS(8k_h2o, "h2o");
TURNBENCH_STATISTICS(8k_keyformer, "keyformer");
TURNBENCH_STATISTICS(8k_loopserve_decode, "loopserve-decode");
#undef TURNBENCH_STATISTICS

}  // namespace
}  // namespace turnbench
