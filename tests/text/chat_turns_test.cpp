// Compares chat templates turn by turn with transformers: tests/golden/make_turns_golden.py.

#include "text/tokenizer/chat_turns.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/file.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;
using test::message_of;

/// The golden file, and the texts of those templates that are available.
struct GoldenTurns {
  GoldenTurns() {
    const fs::path root = TURNBENCH_SOURCE_DIR, shared = root / "../shared/data";
    json = OrderedJson::parse(read_file(root / "tests/data/chat/turns.json"));
    for (const auto& [name, text] : json["written"].items()) texts[name] = text;
    for (const OrderedJson& one : json["cases"]) {
      const std::string name = one[0];
      const fs::path jinja = shared / "chat_templates" / name;
      const fs::path config = shared / "tokenizers" / name / "tokenizer_config.json";
      if (texts.contains(name)) continue;
      if (fs::exists(jinja)) texts[name] = read_file(jinja);
      if (fs::exists(config)) texts[name] = Json::parse(read_file(config))["chat_template"];
    }
  }

  ChatTemplate chat(const std::string& name) const {
    return {.name = "own", .source = name, .text = texts.at(name), .tokens = json["tokens"]};
  }

  OrderedJson json;
  std::map<std::string, std::string> texts;
};

std::string system_of(const OrderedJson& one) {
  return one[1].is_null() ? "" : one[1].get<std::string>();
}

OrderedJson messages_of(const OrderedJson& one) {
  OrderedJson out = OrderedJson::array();
  if (!one[1].is_null()) out.push_back({{"role", "system"}, {"content", one[1]}});
  for (std::size_t i = 0; i < one[2].size(); ++i)
    out.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", one[2][i]}});
  return out;
}

/// The text of all turns and answers.
std::string appended(const ChatTurns& turns, const OrderedJson& texts) {
  std::string out;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto turn = static_cast<int>(i / 2);
    out += i % 2 == 0 ? turns.turn(turn, texts[i]).text : turns.given_answer(texts[i]);
  }
  return out;
}

/// Checks the last turn and the place of its message.
void expect_last_turn(const ChatTurns& turns, const OrderedJson& one) {
  const std::string text = one[3], message = one[2].back();
  const std::vector<std::size_t> ends = one[4];  // of markup, message, markup, message, ..., cue
  const std::size_t n = ends.size(), begin = n > 3 ? ends[n - 4] : 0;
  const TurnText turn = turns.turn(static_cast<int>(n / 4), message);
  EXPECT_EQ(turn.text, text.substr(begin));
  EXPECT_EQ(turn.text.substr(0, turn.position(0)), text.substr(begin, ends[n - 3] - begin));
  EXPECT_EQ(turn.text.substr(turn.position(message.size())), text.substr(ends[n - 2]));
}

TEST(ChatTurns, EqualTransformersRendering) {
  const GoldenTurns golden;
  std::size_t prompts = 0, refused = 0, joined = 0;
  std::set<std::string> templates;
  for (const OrderedJson& one : golden.json["cases"]) {
    const std::string name = one[0];
    if (!golden.texts.contains(name)) continue;
    SCOPED_TRACE(one.dump());
    const ChatTemplate chat = golden.chat(name);
    const ChatTurns turns(chat, system_of(one));
    templates.insert(name);
    ++prompts;
    if (one[3].is_null()) {
      EXPECT_THROW(ChatRenderer(chat).render(messages_of(one), true), Error);
      EXPECT_THROW(appended(turns, one[2]), Error);
      ++refused;
      continue;
    }
    EXPECT_EQ(ChatRenderer(chat).render(messages_of(one), true).text, one[3].get<std::string>());
    if (one[5].is_null()) {
      EXPECT_NE(message_of([&] { appended(turns, one[2]); }).find("changes the text before it"),
                std::string::npos);
      ++refused;
      continue;
    }
    if (!one[4].is_null()) expect_last_turn(turns, one);
    if (one[5].get<bool>()) {
      EXPECT_EQ(appended(turns, one[2]), one[3].get<std::string>());
      ++joined;
    }
  }
  EXPECT_GE(prompts, 6 * 14u);
  EXPECT_GE(joined, 70u);
  if (templates.size() < 25) GTEST_SKIP() << "no ../shared/data: " << templates.size() << " of 25";
  EXPECT_EQ(prompts, 350u);
  EXPECT_EQ(refused, 20u);
}

std::string turn_of(const std::string& text, int turn, const std::string& message,
                    const std::string& system = "") {
  return ChatTurns({.name = "own", .source = "chat", .text = text}, system)
      .turn(turn, message)
      .text;
}

TEST(ChatTurns, RejectTemplatesThatCannotAppendTurns) {
  const auto refusal = [](const std::string& text, int turn) {
    return message_of([&] { turn_of(text, turn, "hello"); });
  };
  const std::string all = "{% for m in messages %}<{{ m.content }}>{% endfor %}";
  EXPECT_EQ(turn_of(all, 1, "hello"), "><hello>");
  EXPECT_EQ(refusal("{{ messages | length }}" + all, 0), "no error");
  EXPECT_EQ(refusal("{{ messages | length }}" + all, 1).substr(0, 51),
            "chat: found that turn 2 changes the text before it,");
  EXPECT_EQ(refusal("{{ messages[-1].content }}", 1),
            "chat: found an earlier answer changed or left out, expected its text as it is");
  EXPECT_EQ(refusal("{{ messages[-1].content | upper }}", 0),
            "chat: found the user's message changed or left out, expected its text as it is");
  EXPECT_EQ(refusal(all + all, 0),
            "chat: found a message written twice or out of order, expected it once");
  EXPECT_EQ(refusal("{{ raise_exception('never') }}", 0),
            "chat: line 1: raise_exception('never'): found messages that the template refuses "
            "(\"never\"), expected others");
}

TEST(ChatTurns, LocateReplacedText) {
  const ChatTurns turns(
      {.name = "own", .source = "chat", .text = "<{{ messages[-1].content.replace('-', '+++') }}>"},
      "");
  const TurnText turn = turns.turn(0, "a-b");
  EXPECT_EQ(turn.text, "<a+++b>");
  EXPECT_EQ(turn.position(0), 1u);
  EXPECT_EQ(turn.position(1), 2u);
  EXPECT_EQ(turn.position(3), 6u);
}

TEST(ChatTurns, LocateTrimmedText) {
  const ChatTurns turns(find_chat_template("llama3"), "Be brief.");
  const TurnText turn = turns.turn(0, " \n");
  EXPECT_EQ(turn.position(0), turn.position(2));
  EXPECT_TRUE(turn.text.substr(0, turn.position(0)).ends_with("user<|end_header_id|>\n\n"));
  EXPECT_TRUE(turn.text.substr(turn.position(2)).starts_with("<|eot_id|>"));
}

TEST(ChatTurns, AnswersKeepTheirCue) {
  const ChatTurns turns(find_chat_template("qwen3-no-thinking"), "");
  EXPECT_TRUE(turns.turn(0, "2 + 2?").text.ends_with("<think>\n\n</think>\n\n"));
  EXPECT_EQ(turns.given_answer("<think>\nHm.\n</think>\n\nFour."), "Four.");
  EXPECT_EQ(ChatTurns(find_chat_template("mistral-v0.3"), "").given_answer(" yes "), " yes");
  EXPECT_EQ(turns.after_answer().substr(0, 11), "<|im_end|>\n");
}

TEST(ChatTurns, RenderASingleTurnTemplate) {
  const std::string last = "<{{ messages[-1].content }}>";
  EXPECT_EQ(turn_of(last, 0, "hello"), "<hello>");
  EXPECT_EQ(ChatTurns({.name = "own", .source = "chat", .text = last}, "").after_answer(), "");
}

}  // namespace
}  // namespace turnbench
