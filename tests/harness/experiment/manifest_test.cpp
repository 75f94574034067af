#include "harness/experiment/manifest.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

TEST(Manifest, Defaults) {
  const Manifest m = parse_manifest(
      R"({"name": "x", "models": ["tiny"], "datasets": ["tiny-fact"], "methods": ["full"]})", "m");
  EXPECT_EQ(m.title, "x");
  EXPECT_EQ(m.datasets[0].label, "tiny-fact");
  EXPECT_EQ(m.positions, std::vector<Position>{Position::kEnd});
  EXPECT_EQ(m.histories, std::vector<History>{History::kReprefill});
  EXPECT_EQ(m.answers, std::vector<Answers>{Answers::kOwn});
  EXPECT_TRUE(m.tables.empty()) << "reports make one of the cells";
  EXPECT_EQ(m.datasets[0].label, "tiny-fact");
}

TEST(Manifest, EverythingSet) {
  const Manifest m = parse_manifest(R"({
    "name": "x", "title": "T", "description": "D",
    "models": [{"name": "a", "path": "p", "dtype": "bf16", "kv_dtype": "f16", "math": "bf16", "template": "chatml"}],
    "datasets": [{"name": "tiny-fact", "label": "short", "task": "one fact", "limit": 3, "seed": 4, "turns": 2, "length": 300, "metric": "exact_match", "postprocess": "none"}],
    "positions": ["begin", "end"], "methods": ["full", {"name": "snapkv", "budget": 64}, {"label": "Ours", "method": [{"name": "loopserve-prefill"}, {"name": "h2o", "budget": 64}]}],
    "history": ["reprefill", "recompress"], "answers": ["own", "gold"], "max_prompt_tokens": 500, "max_new_tokens": 7,
    "temperature": 0.5, "seed": 9, "system_prompt": "S", "smoke": "not real",
    "tables": [{"title": "t", "rows": ["method"], "columns": ["position", "history"], "difference_to": "full"}]})",
                                    "m");
  EXPECT_EQ(m.models[0].kv_dtype, DType::kF16);
  EXPECT_EQ(m.models[0].math, Math::kBF16);
  EXPECT_EQ(m.datasets[0].label, "short");
  EXPECT_EQ(m.methods[1].label(), "snapkv:budget=64");
  EXPECT_EQ(m.methods[2].label(), "Ours");
  EXPECT_EQ(m.methods[2].name(), "loopserve-prefill+h2o");
  EXPECT_EQ(m.datasets[0].task, "one fact");
  EXPECT_EQ(m.smoke, "not real");
  EXPECT_EQ(m.tables[0].columns, (std::vector<std::string>{"position", "history"}));
}

// Every manifest of the project is valid.  Some read a retrieval head that the project can train.
TEST(Manifest, ProjectManifestsLoad) {
  int count = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(TURNBENCH_SOURCE_DIR "/experiments")) {
    if (entry.path().extension() != ".json") continue;
    const bool has_head =
        std::filesystem::exists(TURNBENCH_SOURCE_DIR "/models/smollm2/retrieval_head");
    if (!has_head && entry.path().filename().string().starts_with("retrieval-head") &&
        entry.path().parent_path().filename() == "smollm2") {
      const std::string message = test::message_of([&] { load_manifest(entry.path()); });
      EXPECT_NE(message.find("found no such directory"), std::string::npos) << message;
      continue;
    }
    EXPECT_NO_THROW(load_manifest(entry.path())) << entry.path();
    ++count;
  }
  EXPECT_GT(count, 0);
}

/// The manifests in the blocks ```json of a document.
std::vector<Manifest> examples_of(const std::string& path) {
  const std::vector<std::string> parts = split(read_file(path), "```");
  std::vector<Manifest> examples;
  for (std::size_t i = 1; i < parts.size(); i += 2) {
    if (!parts[i].starts_with("json\n")) continue;
    examples.push_back(parse_manifest(std::string_view(parts[i]).substr(5), path));
  }
  return examples;
}

// The examples in docs/manifest.md parse to the documented values.
TEST(Manifest, DocumentationExamplesParse) {
  const std::vector<Manifest> examples = examples_of(TURNBENCH_SOURCE_DIR "/docs/manifest.md");
  ASSERT_EQ(examples.size(), 9u);
  EXPECT_EQ(examples[0].name, "first");
  EXPECT_EQ(examples[1].methods.size(), 4u);
  EXPECT_EQ(examples[1].methods[3].label(), "loopserve-prefill+streamingllm:budget=256");
  EXPECT_EQ(examples[1].tables[1].columns, std::vector<std::string>{"turn"});
  EXPECT_EQ(examples[2].datasets[0].leave_out, "wrong.txt");
  EXPECT_TRUE(examples[3].datasets[1].official_prompts);
  EXPECT_EQ(examples[4].datasets[1].depth, 50.0);
  EXPECT_EQ(examples[5].datasets[0].fields.at("context"), "documents");
  EXPECT_TRUE(examples[6].methods.empty());
  ASSERT_EQ(examples[6].probes.size(), 3u);
  EXPECT_EQ(examples[6].probes[1].label(), "line-overlap:eta=0.2");
  EXPECT_EQ(examples[7].fidelity, Along::kFull);
  EXPECT_EQ(examples[7].tables[1].values, std::vector<std::string>{"kl"});
  EXPECT_EQ(examples[8].tables[0].methods, std::vector<std::string>{"adakv"});
  EXPECT_EQ(examples[8].tables[0].difference_to,
            (std::vector<BaselineRule>{{"snapkv", {"budget"}, true}, {"h2o", {"budget"}, true}}));
}

TEST(Manifest, CookbookExamplesParse) {
  const std::vector<Manifest> examples = examples_of(TURNBENCH_SOURCE_DIR "/docs/cookbook.md");
  ASSERT_EQ(examples.size(), 5u);
  EXPECT_EQ(examples[1].tables[0].rows, std::vector<std::string>{"method.variant"});
  EXPECT_EQ(examples[2].histories.size(), 3u);
  EXPECT_EQ(examples[3].probes.size(), 5u);
  EXPECT_TRUE(examples[4].isolated);
}

// docs/manifest.md describes every key that is accepted.
TEST(Manifest, DocumentationListsEveryKey) {
  const std::string docs = read_file(TURNBENCH_SOURCE_DIR "/docs/manifest.md");
  const char* keys =
      "name title description models datasets positions methods history answers max_prompt_tokens "
      "max_new_tokens temperature seed system_prompt tables published path dtype kv_dtype math "
      "template "
      "label source metric postprocess limit turns length depth fields official_prompts only "
      "leave_out "
      "past_positions rows "
      "columns methods values same difference_to task method smoke probes isolated fidelity";
  for (const std::string& key : split(keys, " ")) {
    EXPECT_NE(docs.find("`" + key + "`"), std::string::npos) << key;
  }
  for (const TableValue& value : table_values())
    EXPECT_NE(docs.find("`" + std::string(value.name) + "`"), std::string::npos) << value.name;
  for (std::string_view d : table_dimensions())
    EXPECT_NE(docs.find("`" + std::string(d) + "`"), std::string::npos) << d;
}

}  // namespace
}  // namespace turnbench
