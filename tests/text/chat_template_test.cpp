#include "text/tokenizer/chat_template.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "inference/model/embedded_model.h"
#include "tests/message_of.h"
#include "text/tokenizer/chat_turns.h"

namespace turnbench {
namespace {

using test::message_of;

std::string render(const ChatTemplate& chat, const Json& turns,
                   const std::optional<std::string>& system) {
  OrderedJson messages = OrderedJson::array();
  const auto add = [&](const char* role, const std::string& content) {
    messages.push_back({{"role", role}, {"content", content}});
  };
  if (system) add("system", *system);
  for (const Json& turn : turns) {
    add("user", turn[0]);
    add("assistant", turn[1]);
  }
  messages.erase(messages.size() - 1);
  return ChatRenderer(chat).render(messages, true).text;
}

// See tests/golden/make_chat_golden.py.
TEST(ChatTemplate, RendersWhatJinjaRenders) {
  const std::string path = TURNBENCH_SOURCE_DIR "/tests/data/chat/golden.json";
  const Json cases = parse_json(read_file(path), path);
  EXPECT_GT(cases.size(), 100u);
  for (const Json& c : cases) {
    const std::string name = c["template"];
    std::optional<std::string> system;
    if (!c["system"].is_null()) system = c["system"].get<std::string>();
    EXPECT_EQ(render(find_chat_template(name), c["turns"], system), c["text"].get<std::string>())
        << name << " " << c["system"] << " " << c["turns"];
  }
}

TEST(ChatTemplate, TinyMarksQuestionsAndAnswersWithTheTurn) {
  const ChatTemplate chat = find_chat_template("tiny");
  EXPECT_EQ(chat.paragraph_prefix, "\n ");
  EXPECT_TRUE(chat.prefixes_first_piece);
  EXPECT_EQ(chat.question_prefix(0), "\n<q1> ");
  EXPECT_EQ(chat.question_prefix(15), "\n<q16> ");
  EXPECT_EQ(chat.question_prefix(16), "\n<q1> ");
  const ChatTurns turns(chat, "");
  EXPECT_EQ(turns.turn(0, "?").text, "<bos>?\n<a1>");
  EXPECT_EQ(turns.turn(2, "?").text, "<eos>?\n<a3>");
  EXPECT_EQ(turns.turn(16, "?").text, "<eos>?\n<a1>");
  EXPECT_EQ(turns.given_answer("yes"), " yes");
  const std::string message = message_of([&] { ChatTurns(chat, "Be brief.").turn(0, "?"); });
  EXPECT_NE(message.find("chat template tiny: line 1: raise_exception"), std::string::npos)
      << message;
  EXPECT_NE(message.find("refuses (\"tiny knows no system messages\")"), std::string::npos);
}

TEST(ChatTemplate, NoneWritesNoMarkup) {
  const ChatTemplate chat = find_chat_template("none");
  const Json turns = Json::array({Json::array({"one", "two"}), Json::array({"three", "four"})});
  EXPECT_EQ(render(chat, turns, std::nullopt), "onetwo\n\nthree");
  EXPECT_EQ(render(chat, turns, "zero"), "zero\n\nonetwo\n\nthree");
  EXPECT_EQ(chat.question_prefix(3), "\n\n");
  EXPECT_FALSE(chat.prefixes_first_piece);
}

TEST(ChatTemplate, UnknownNameErrorListsKnownNames) {
  const std::string message = message_of([] { find_chat_template("gemma"); });
  EXPECT_TRUE(message.starts_with("chat template: found \"gemma\", expected one of: none, llama2"))
      << message;
  for (const std::string& name : chat_template_names()) {
    EXPECT_EQ(find_chat_template(name).name, name);
    EXPECT_NE(message.find(name), std::string::npos);
  }
}

TEST(ChatTemplate, IsTheTextOrNameInTheTokenizerConfig) {
  const auto open = [](const char* config) {
    const Tokenizer tokenizer = Tokenizer::from_json(embedded::tokenizer(), config, "tiny");
    return chat_template_of(tokenizer.chat_template(), tokenizer, "chat template of m");
  };
  EXPECT_EQ(open(R"({"chat_template": "tiny"})").name, "tiny");
  EXPECT_EQ(open(R"({"chat_template": "llama3.1"})").name, "llama3.1");
  const ChatTemplate own = open(
      R"({"chat_template": "{{ bos_token }}{{ messages[0].content }}", "bos_token": "<bos>",
          "eos_token": {"content": "<eos>"}})");
  EXPECT_EQ(own.name, "own");
  EXPECT_EQ(own.tokens,
            (std::map<std::string, std::string>{{"bos_token", "<bos>"}, {"eos_token", "<eos>"}}));
  EXPECT_EQ(ChatTurns(own, "").turn(0, "hello").text, "<bos>hello");
  EXPECT_EQ(message_of([&] { open("{}"); }).substr(0, 81),
            "chat template of m: found none, expected a Jinja text, or the name of one of: non");
}

TEST(ChatTemplate, InvalidTemplateIsRejectedWithTheLine) {
  EXPECT_EQ(message_of([] {
              ChatRenderer({.name = "own", .source = "my.jinja", .text = "a\n{% if %}"});
            }).substr(0, 16),
            "my.jinja: line 2");
}

}  // namespace
}  // namespace turnbench
