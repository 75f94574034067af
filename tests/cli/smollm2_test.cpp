// A real trained model, if `make smollm2` has created it.

#include <gtest/gtest.h>

#include "common/file.h"
#include "tests/cli/program.h"

namespace turnbench::test {
namespace {

constexpr const char* kModels = TURNBENCH_SOURCE_DIR "/models";

class SmolLm2 : public testing::Test {
 protected:
  void SetUp() override {
    if (!path_exists(std::string(kModels) + "/smollm2/model.safetensors"))
      GTEST_SKIP() << "no models/smollm2: make smollm2 makes it";
    setenv("TURNBENCH_MODELS", kModels, 1);
  }
  void TearDown() override { unsetenv("TURNBENCH_MODELS"); }
};

TEST_F(SmolLm2, IsNamedWhereModelsAre) {
  const std::string path = std::string(kModels) + "/smollm2";
  EXPECT_EQ(run_program({"doctor", "--json"}).json()["model smollm2"], path)
      << "nothing is missing";
  const std::string listed = run_program({"list", "models"}).out;
  EXPECT_NE(listed.find("smollm2"), std::string::npos) << listed;
}

TEST_F(SmolLm2, AnswersATrainingFact) {
  const TemporaryDirectory d;
  const std::string prompt = d.write("prompt", "The capital of France is");
  const Finished run = run_program({"generate", "--model", "smollm2", "--prompt", prompt,
                                    "--max-tokens", "3", "--method", "full", "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  const std::string text = run.json()["text"];
  EXPECT_TRUE(text.starts_with(" Paris")) << text;
}

}  // namespace
}  // namespace turnbench::test
