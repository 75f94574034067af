// Every method on 24,576 tokens in 1 GB: one matrix of their pairs would take 2.4 GB.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

#include "inference/engine/engine.h"
#include "methods/method.h"
#include "tests/backends/backend.h"
#include "tests/temporary_directory.h"

namespace turnbench {
namespace {

constexpr int kTokens = 24576;
constexpr rlim_t kLimit = rlim_t{1000} << 20;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kLimitWorks = false;  // shadow memory is not for use
#else
constexpr bool kLimitWorks = true;
#endif

/// A one-layer model and a prompt, in a process whose memory is limited from here on.
class LimitedMachine {
 public:
  explicit LimitedMachine(const std::string& config)
      : backend_(test::make_backend(2)),
        model_(Checkpoint::open("random:" + config), *backend_, DType::kF32, Math::kF32),
        engine_(model_, *backend_, {}) {
    for (int i = 0; i < kTokens; ++i) tokens_.push_back(i * 37 % 97);
    dialogue_.seed = 1;
    dialogue_.answer_limit = 2;
    dialogue_.token_text = [](int token) { return token % 16 == 0 ? "." : " word"; };
    dialogue_.spans = spans_;
  }

  /// The prompt and two tokens of an answer.  Methods with a dense prefill share one prefill,
  /// unless their codec stores the cache.
  void run(const std::vector<std::string>& specs) {
    Sequence prefix = engine_.make_sequence({}, 256);
    std::vector<Sequence> sequences;
    for (const std::string& spec : specs)
      sequences.push_back(engine_.make_sequence(Method::parse(spec).make()));
    Pass shared{.sequence = &prefix, .tokens = tokens_, .dialogue = &dialogue_, .prompt_end = true};
    for (Sequence& s : sequences) {
      if (!s.policies.prefill && s.policies.row_codec() == nullptr) {
        shared.forks.push_back(&s);
        continue;
      }
      const Pass own{.sequence = &s, .tokens = tokens_, .dialogue = &dialogue_, .prompt_end = true};
      engine_.prefill({&own, 1});
    }
    if (!shared.forks.empty()) engine_.prefill({&shared, 1});
    for (int step = 0; step < 2; ++step) {
      for (Sequence& s : sequences) {
        const Pass next{.sequence = &s,
                        .tokens = {tokens_.data(), 1},
                        .kind = Pass::Kind::kDecode,
                        .dialogue = &dialogue_};
        engine_.forward({&next, 1});
      }
    }
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

void limit_memory() {
  const rlimit limit{kLimit, kLimit};
  setrlimit(RLIMIT_AS, &limit);
}

/// Ends this process with 0 if all methods ran.
[[noreturn]] void run_in_limits(const std::string& config, const std::vector<std::string>& specs) {
  try {
    limit_memory();
    LimitedMachine(config).run(specs);
    _exit(0);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    _exit(1);
  }
}

/// Ends this process with 0 if a matrix of all pairs is refused.
[[noreturn]] void make_square() {
  limit_memory();
  try {
    const std::vector<float> square(std::size_t{kTokens} * kTokens);
    _exit(square.empty() ? 2 : 1);
  } catch (const std::bad_alloc&) {
    _exit(0);
  }
}

class MemoryUse : public testing::Test {
 protected:
  MemoryUse()
      : config_(directory_.write("one-layer.json", R"({"model_type": "llama", "hidden_size": 32,
      "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
      "num_key_value_heads": 1, "head_dim": 16, "vocab_size": 97, "rope_theta": 1000000.0,
      "rms_norm_eps": 1e-6, "max_position_embeddings": 65536, "tie_word_embeddings": true})")) {}

  void expect_to_fit(bool with_prefill) {
    if (!kLimitWorks) GTEST_SKIP() << "sanitizers reserve more address space than the limit";
    std::vector<std::string> specs;
    for (const MethodInfo& info : all_methods()) {
      const Policies policies = Method::parse(std::string(info.name)).make();
      if ((policies.prefill != nullptr) == with_prefill) specs.emplace_back(info.name);
    }
    ASSERT_FALSE(specs.empty());
    EXPECT_EXIT(run_in_limits(config_, specs), testing::ExitedWithCode(0), "");
  }

  test::TemporaryDirectory directory_;
  std::string config_;
};

TEST_F(MemoryUse, SparsePrefillIsLinear) {
  expect_to_fit(true);
}

TEST_F(MemoryUse, EvictionAndSelectionAreLinear) {
  expect_to_fit(false);
}

// Also if rows attend to later keys, so that the prompt is one pass.
TEST_F(MemoryUse, NonCausalPromptsAreLinear) {
  if (!kLimitWorks) GTEST_SKIP() << "sanitizers reserve more address space than the limit";
  EXPECT_EXIT(run_in_limits(config_, {"h2o:mask=corner"}), testing::ExitedWithCode(0), "");
}

// The limit is effective: an n x n matrix would be refused.
TEST_F(MemoryUse, LimitRejectsASquareMatrix) {
  if (!kLimitWorks) GTEST_SKIP() << "sanitizers reserve more address space than the limit";
  EXPECT_EXIT(make_square(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace turnbench
