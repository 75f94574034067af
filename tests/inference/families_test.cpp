// Every model family of the decoder, compared with Hugging Face transformers; see
// tests/golden/make_model_golden.py.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/json.h"
#include "inference/engine/engine.h"
#include "inference/engine/sampler.h"
#include "tests/backends/backend.h"
#include "tests/parameter_name.h"

namespace turnbench {
namespace {

const std::filesystem::path kModels = TURNBENCH_SOURCE_DIR "/tests/data/models";

class Family : public testing::TestWithParam<std::string> {
 protected:
  Family()
      : directory_(kModels / GetParam()),
        backend_(test::make_backend(2)),
        model_(Checkpoint::open(directory_.string()), *backend_, DType::kF32, Math::kF32),
        engine_(model_, *backend_, {}) {
    const std::string path = (directory_ / "golden.json").string();
    const Json golden = parse_json(read_file(path), path);
    ids_ = golden.at("ids").get<std::vector<int>>();
    greedy_ = golden.at("greedy").get<std::vector<int>>();
    const MappedFile file(directory_ / "golden.safetensors");
    const Safetensors tensors = Safetensors::from_memory(file.bytes(), "golden");
    const auto vocab = static_cast<std::int64_t>(model_.config().vocab);
    const TensorView& t = tensors.at("logits", {static_cast<std::int64_t>(ids_.size()), vocab});
    logits_.resize(t.bytes.size() / sizeof(float));
    std::memcpy(logits_.data(), t.bytes.data(), t.bytes.size());
  }

  std::vector<float> prefill(Sequence& sequence, std::span<const int> tokens) {
    const Pass pass{
        .sequence = &sequence, .tokens = tokens, .prompt_end = true, .all_logits = true};
    return engine_.prefill({&pass, 1})[0];
  }

  std::vector<float> decode(Sequence& sequence, int token) {
    const Pass pass{.sequence = &sequence, .tokens = {&token, 1}, .kind = Pass::Kind::kDecode};
    return engine_.forward({&pass, 1})[0];
  }

  static bool is_shortened() { return test::is_emulated(); }
  /// The golden text; with emulation only its beginning, which is longer than the original context
  /// of YaRN.
  std::span<const int> prompt() const {
    return std::span(ids_).first(is_shortened() ? 140 : ids_.size());
  }

  /// `got`: logits of rows of the text from `row` on.
  void expect_golden(const std::vector<float>& got, std::size_t row) const {
    const float* want = logits_.data() + row * static_cast<std::size_t>(model_.config().vocab);
    float largest = 0, worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      largest = std::max(largest, std::abs(want[i]));
      worst = std::max(worst, std::abs(got[i] - want[i]));
    }
    EXPECT_LT(worst / largest, 1e-4) << "row " << row;
  }

  std::filesystem::path directory_;
  std::unique_ptr<Backend> backend_;
  Model model_;
  Engine engine_;
  std::vector<int> ids_, greedy_;
  std::vector<float> logits_;
};

TEST_P(Family, LogitsAndGreedyTokens) {
  Sequence sequence = engine_.make_sequence({});
  const std::vector<float> got = prefill(sequence, prompt());
  ASSERT_EQ(got.size(), prompt().size() * static_cast<std::size_t>(model_.config().vocab));
  expect_golden(got, 0);
  if (is_shortened()) {  // the next tokens of the text replace the greedy ones
    for (std::size_t i = prompt().size(); i < prompt().size() + 3; ++i)
      expect_golden(decode(sequence, ids_[i]), i);
    return;
  }
  std::vector<float> last(got.end() - model_.config().vocab, got.end());
  std::vector<int> tokens;
  for (std::size_t i = 0; i < greedy_.size(); ++i) {
    tokens.push_back(argmax(last));
    last = decode(sequence, tokens.back());
  }
  EXPECT_EQ(tokens, greedy_);
}

// Any chunks, and decoding the prompt token by token, give the same bits.
TEST_P(Family, ResultsDoNotDependOnChunks) {
  SKIP_UNLESS_ROWS_ARE_INDEPENDENT();
  Sequence whole = engine_.make_sequence({});
  const std::vector<float> want = prefill(whole, ids_);
  for (int chunk : {1, 7, 64, 100, 259}) {
    Engine::Options options;
    options.prefill_chunk = chunk;
    Engine chunked(model_, *backend_, options);
    Sequence sequence = chunked.make_sequence({});
    const Pass pass{.sequence = &sequence, .tokens = ids_, .prompt_end = true, .all_logits = true};
    EXPECT_EQ(chunked.prefill({&pass, 1})[0], want) << chunk;
  }
}

// Sequences of different lengths in one batch, forks and threads: the same bits as alone.
TEST_P(Family, ResultsDoNotDependOnBatchAndThreads) {
  SKIP_UNLESS_ROWS_ARE_INDEPENDENT();
  const auto vocab = static_cast<std::size_t>(model_.config().vocab);
  Sequence alone = engine_.make_sequence({});
  const std::vector<float> want = prefill(alone, ids_);
  for (int threads : {1, 3, 8}) {
    const auto backend = test::make_backend(threads);
    Engine engine(model_, *backend, {});
    std::vector<Sequence> sequences;
    std::vector<Pass> passes;
    for (int i = 0; i < 5; ++i) sequences.push_back(engine.make_sequence({}));
    for (std::size_t i = 0; i < 5; ++i) {
      passes.push_back({.sequence = &sequences[i],
                        .tokens = std::span(ids_).first(ids_.size() - 37 * i),
                        .prompt_end = true,
                        .all_logits = true});
    }
    const auto got = engine.prefill(passes);
    for (std::size_t i = 0; i < 5; ++i) {
      ASSERT_EQ(0, std::memcmp(got[i].data(), want.data(), got[i].size() * sizeof(float)))
          << threads << " " << i;
    }
    // A fork continues independently; the original does not change.
    Sequence fork = sequences[4].fork();
    const std::size_t at = ids_.size() - 37 * 4;
    const int other = 5;
    const Pass astray{.sequence = &fork, .tokens = {&other, 1}, .kind = Pass::Kind::kDecode};
    engine.forward({&astray, 1});
    const Pass rest{.sequence = &sequences[4],
                    .tokens = std::span(ids_).subspan(at),
                    .prompt_end = true,
                    .all_logits = true};
    const auto tail = engine.prefill({&rest, 1})[0];
    ASSERT_EQ(0, std::memcmp(tail.data(), want.data() + at * vocab, tail.size() * sizeof(float)))
        << threads;
  }
}

TEST_P(Family, SixteenBitCache) {
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    Engine::Options options;
    options.kv_dtype = dtype;
    Engine engine(model_, *backend_, options);
    Sequence sequence = engine.make_sequence({});
    const Pass pass{
        .sequence = &sequence, .tokens = prompt(), .prompt_end = true, .all_logits = true};
    const std::vector<float> got = engine.prefill({&pass, 1})[0];
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      error += std::pow(got[i] - logits_[i], 2);
      norm += std::pow(logits_[i], 2);
    }
    EXPECT_LT(std::sqrt(error / norm), dtype == DType::kF16 ? 5e-3 : 5e-2);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Family,
                         testing::Values("llama2", "llama3", "llama-linear", "mistral", "qwen2",
                                         "qwen2-yarn", "qwen3"),
                         test::parameter_name);

}  // namespace
}  // namespace turnbench
