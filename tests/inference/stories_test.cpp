// A real trained model, stories260K, compared with its double-precision reference.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/json.h"
#include "inference/engine/engine.h"
#include "inference/engine/sampler.h"

namespace turnbench {
namespace {

const std::filesystem::path kStories = TURNBENCH_SOURCE_DIR "/../shared/data/tinyllama";

TEST(Stories, GreedyTokensAndLogitsEqualTheReference) {
  if (!std::filesystem::exists(kStories)) GTEST_SKIP() << "no " << kStories;
  const auto backend = make_cpu_backend(2);
  const Model model(Checkpoint::open((kStories / "hf").string()), *backend, DType::kF32,
                    Math::kF32);
  Engine engine(model, *backend, {});
  const std::string path = (kStories / "expected_greedy.json").string();
  const Json json = parse_json(read_file(path), path);
  for (const Json& story : json.is_array() ? json : json.at("cases")) {
    const auto prompt = story.at("prompt_tokens").get<std::vector<int>>();
    const auto expected = story.at("greedy_tokens").get<std::vector<int>>();
    Sequence sequence = engine.make_sequence({});
    const Pass first{.sequence = &sequence, .tokens = prompt, .prompt_end = true};
    std::vector<float> logits = engine.prefill({&first, 1})[0];
    std::vector<int> got;
    for (std::size_t step = 0; step < expected.size(); ++step) {
      if (step < story.at("logits_first_steps").size()) {
        const auto reference = story.at("logits_first_steps")[step].get<std::vector<double>>();
        ASSERT_EQ(reference.size(), logits.size());
        for (std::size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], reference[i], 1e-4);
      }
      got.push_back(argmax(logits));
      const Pass next{
          .sequence = &sequence, .tokens = {&got.back(), 1}, .kind = Pass::Kind::kDecode};
      logits = engine.forward({&next, 1})[0];
    }
    EXPECT_EQ(got, expected);
  }
}

}  // namespace
}  // namespace turnbench
