// LongBench prompts of the official procedure; see tests/golden/make_prompt_golden.py.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/json.h"
#include "datasets/catalog.h"
#include "datasets/longbench.h"
#include "harness/run/prompt.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = TURNBENCH_SOURCE_DIR;
const fs::path kLongBench = kRoot / "../shared/data/longbench";

std::string short_hash(const std::string& hash) {
  return hash.substr(0, 16);
}

/// A small tokenizer and a chat template, with the names of the golden file.
struct Renderer {
  explicit Renderer(const Json& names)
      : name(names[0]),
        tokenizer(Tokenizer::from_json(
            read_file(kRoot / "tests/data/tokenizers" / (name + ".json")), "", name)),
        chat(find_chat_template(names[1].get<std::string>())),
        renderer(tokenizer, chat, "", {}) {}

  std::string name;
  Tokenizer tokenizer;
  ChatTemplate chat;
  PromptRenderer renderer;
};

/// The golden file and its setups.
struct Golden {
  Golden()
      : json(parse_json(read_file(kRoot / "tests/data/datasets/prompts.json"), "prompts.json")) {
    for (const Json& names : json["setups"]) setups.push_back(std::make_unique<Renderer>(names));
  }
  Json json;
  std::vector<std::unique_ptr<Renderer>> setups;
};

/// A synthetic case of the golden file.
Dialogue synthetic_dialogue(const Json& one) {
  LongBenchRecord record;
  record.id = "a";
  record.answers = {"b"};
  record.context = one["context"];
  record.input = one["input"];
  return official_dialogue(one["task"].get<std::string>(), record,
                           one["template"].get<std::string>());
}

std::string text_of(const Turn& turn) {
  return turn.instruction + turn.contexts.at(0).text + turn.question;
}

TEST(OfficialPrompts, AreFilledFromSyntheticRecords) {
  const Golden golden;
  ASSERT_EQ(golden.json["made_up"].size(), 48u);
  for (const Json& one : golden.json["made_up"]) {
    const Renderer& setup = *golden.setups[one["setup"].get<std::size_t>()];
    const int limit = one["limit"];
    const std::string task = one["task"], where = fmt::format("{} {} {}", task, setup.name, limit);
    const Dialogue dialogue = synthetic_dialogue(one);
    const RenderedTurn rendered = setup.renderer.render(dialogue, 0, limit);
    EXPECT_EQ(rendered.tokens, one["tokens"].get<std::vector<int>>()) << where;
    EXPECT_EQ(setup.tokenizer.decode(rendered.tokens, false),
              setup.tokenizer.decode(one["tokens"].get<std::vector<int>>(), false))
        << where;
    EXPECT_EQ(rendered.truncated_tokens > 0, limit > 0) << where;
  }
}

TEST(OfficialPrompts, SpansCoverThemWithoutGaps) {
  const Golden golden;
  for (const Json& one : golden.json["made_up"]) {
    const Renderer& setup = *golden.setups[one["setup"].get<std::size_t>()];
    const Dialogue dialogue = synthetic_dialogue(one);
    const RenderedTurn rendered = setup.renderer.render(dialogue, 0, one["limit"]);
    std::int32_t end = 0;
    std::map<SpanKind, int> counts;
    for (const Span& span : rendered.spans) {
      EXPECT_EQ(span.begin, end);
      EXPECT_GT(span.end, span.begin);
      end = span.end;
      ++counts[span.kind];
    }
    EXPECT_EQ(static_cast<std::size_t>(end), rendered.tokens.size());
    EXPECT_LE(counts[SpanKind::kContext], 1);
    if (one["limit"] != 0 || setup.name != "llama3") continue;
    // Without truncation, the span of each piece contains its text.
    for (const Span& span : rendered.spans) {
      const std::string text =
          setup.tokenizer.decode(std::span(rendered.tokens)
                                     .subspan(static_cast<std::size_t>(span.begin),
                                              static_cast<std::size_t>(span.end - span.begin)),
                                 true);
      if (span.kind == SpanKind::kContext) {
        EXPECT_NE(text.find("他们在北京大学学习"), std::string::npos) << text;
        EXPECT_EQ(text.find("Question:"), std::string::npos) << text;
      }
      if (span.kind == SpanKind::kQuestion) {
        EXPECT_EQ(text.find("Family"), std::string::npos) << text;
      }
    }
  }
}

TEST(OfficialPrompts, AreFilledFromAllRealFiles) {
  if (!fs::exists(kLongBench)) GTEST_SKIP() << "no real files at " << kLongBench;
  const Golden golden;
  const std::vector<int> limits = golden.json["limits"];
  std::size_t files = 0, prompts = 0;
  for (const auto& [task, rows] : golden.json["files"].items()) {
    const std::vector<Dialogue> dialogues =
        load_dialogues(task, kLongBench, {.official_prompts = true});
    ASSERT_EQ(dialogues.size(), rows.size()) << task;
    ++files;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Json& row = rows[i];
      const std::string text = text_of(dialogues[i].turns.at(0));
      EXPECT_EQ(text.size(), row[0]) << task << " " << i;
      EXPECT_EQ(short_hash(hash_text(text)), row[1]) << task << " " << i;
      std::size_t at = 2;
      for (const auto& setup : golden.setups) {
        for (int limit : limits) {
          const std::vector<int> tokens = setup->renderer.render(dialogues[i], 0, limit).tokens;
          const std::string where = fmt::format("{} {} {} {}", task, i, setup->name, limit);
          EXPECT_EQ(tokens.size(), row[at++]) << where;
          EXPECT_EQ(short_hash(hash_bytes(std::as_bytes(std::span(tokens)))), row[at++]) << where;
          ++prompts;
        }
      }
    }
  }
  EXPECT_EQ(files, 18u);
  EXPECT_EQ(prompts, 1152u);
}

}  // namespace
}  // namespace turnbench
