// The kept tokens of a prompt, compared with NVIDIA's kvpress; see
// tests/golden/make_eviction_golden.py.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/json.h"
#include "inference/engine/engine.h"
#include "methods/method.h"
#include "methods/parts/budget_sharing.h"
#include "tests/backends/backend.h"

namespace turnbench {
namespace {

const std::filesystem::path kData = TURNBENCH_SOURCE_DIR "/tests/data";

Json read_json(const std::filesystem::path& path) {
  return parse_json(read_file(path), path.string());
}

std::vector<int> positions_of(const Json& runs) {
  std::vector<int> out;
  for (const Json& run : runs) {
    for (int i = 0; i < run[1].get<int>(); ++i) out.push_back(run[0].get<int>() + i);
  }
  return out;
}

/// The tokenizer of make_eviction_golden.py for the texts of scoring passes.
std::vector<int> token_per_byte(std::string_view text) {
  std::vector<int> out;
  for (const char c : text) out.push_back(3 + static_cast<unsigned char>(c) % 125);
  return out;
}

TEST(Kvpress, KeptPositions) {
  const auto backend = test::make_backend(2);
  const Model model(Checkpoint::open((kData / "models/llama3").string()), *backend, DType::kF32,
                    Math::kF32);
  Engine engine(model, *backend, {});
  const auto ids = read_json(kData / "models/llama3/golden.json").at("ids").get<std::vector<int>>();
  const Json all = read_json(kData / "methods/kvpress.json");
  for (const Json& golden : all.at("cases")) {
    const auto spec = golden.at("method").get<std::string>();
    Sequence sequence =
        engine.make_sequence(Method::parse(spec, "method", kData / "methods").make());
    DialogueView dialogue;
    dialogue.encode = token_per_byte;
    const Pass pass{
        .sequence = &sequence, .tokens = ids, .dialogue = &dialogue, .prompt_end = true};
    engine.prefill({&pass, 1});
    for (int l = 0; l < sequence.shape().layers; ++l) {
      const auto& sets = sequence.sets(l);
      for (std::size_t h = 0; h < sets.size(); ++h) {
        std::vector<int> got;
        for (int slot = 0; slot < sets[h].size(); ++slot) got.push_back(sets[h].position(slot));
        EXPECT_EQ(got, positions_of(golden.at("kept")[l][h]))
            << spec << ", layer " << l << ", head " << h;
      }
    }
  }
}

// kvpress rounds each layer's share of the pyramid and includes the window in it; the shares agree.
TEST(Kvpress, PyramidBudgets) {
  const Json golden = read_json(kData / "methods/kvpress.json");
  for (const Json& pyramid : golden.at("pyramid")) {
    const auto want = pyramid.at("sizes").get<std::vector<int>>();
    const auto got =
        pyramid_budgets(static_cast<int>(want.size()), pyramid.at("base"), pyramid.at("beta"),
                        260 - pyramid.at("window").get<int>(), true);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t l = 0; l < want.size(); ++l) EXPECT_LE(std::abs(got[l] - want[l]), 1) << l;
  }
}

}  // namespace
}  // namespace turnbench
