#include "inference/tokenizer/chat_template.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "inference/embedded_model.h"
#include "tests/message_of.h"

namespace turnbench {
namespace {

const std::filesystem::path kShared = TURNBENCH_SOURCE_DIR "/../shared/data";

using test::message_of;

std::string render(const ChatTemplate& chat, const Json& turns,
                   const std::optional<std::string>& system) {
  std::string out;
  for (int t = 0; t < static_cast<int>(turns.size()); ++t) {
    out += chat.before_user(t, system) + chat.user_text(turns[t][0].get<std::string>());
    if (t + 1 == static_cast<int>(turns.size())) return out + chat.generation_prompt(t);
    out += chat.before_answer(t) + chat.answer_text(turns[t][1].get<std::string>());
    out += chat.after_answer();
  }
  return out;
}

// tests/golden/make_chat_golden.py
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
  EXPECT_EQ(chat.before_user(0, std::nullopt), "<bos>");
  EXPECT_EQ(chat.before_user(1, std::nullopt), "");
  EXPECT_EQ(chat.paragraph_prefix, "\n ");
  EXPECT_TRUE(chat.prefixes_first_piece);
  EXPECT_EQ(chat.question_prefix(0), "\n<q1> ");
  EXPECT_EQ(chat.question_prefix(15), "\n<q16> ");
  EXPECT_EQ(chat.question_prefix(16), "\n<q1> ");
  EXPECT_EQ(chat.generation_prompt(2), "\n<a3>");
  EXPECT_EQ(chat.before_answer(2), "\n<a3> ");
  EXPECT_EQ(chat.after_answer(), "<eos>");
  EXPECT_EQ(message_of([&] { chat.before_user(0, "Be brief."); }),
            "chat template tiny: found a system prompt, expected none");
}

TEST(ChatTemplate, NoneWritesNoMarkup) {
  const ChatTemplate chat = find_chat_template("none");
  const Json turns = Json::array({Json::array({"one", "two"}), Json::array({"three", "four"})});
  EXPECT_EQ(render(chat, turns, std::nullopt), "onetwo\n\nthree");
  EXPECT_EQ(render(chat, turns, "zero"), "zero\n\nonetwo\n\nthree");
  EXPECT_EQ(chat.question_prefix(3), "\n\n");
  EXPECT_FALSE(chat.prefixes_first_piece);
}

TEST(ChatTemplate, DateIsASetting) {
  ChatTemplate chat = find_chat_template("llama3.2");
  chat.date = "01 Jan 2030";
  EXPECT_NE(chat.before_user(0, std::nullopt).find("Today Date: 01 Jan 2030\n"), std::string::npos);
}

TEST(ChatTemplate, UnknownNamesAreRefusedWithTheKnownOnes) {
  const std::string message = message_of([] { find_chat_template("gemma"); });
  EXPECT_TRUE(message.starts_with("chat template: found \"gemma\", expected one of: none, llama2"))
      << message;
  for (const std::string& name : chat_template_names()) {
    EXPECT_EQ(find_chat_template(name).name, name);
    EXPECT_NE(message.find(name), std::string::npos);
  }
}

TEST(ChatTemplate, DetectsOfficialTexts) {
  if (!std::filesystem::exists(kShared)) GTEST_SKIP() << "no ../shared/data";
  const auto file = [](const char* name) { return read_file(kShared / "chat_templates" / name); };
  EXPECT_EQ(detect_chat_template(file("meta-llama-Llama-3.1-8B-Instruct.jinja")), "llama3.1");
  EXPECT_EQ(detect_chat_template(file("meta-llama-Llama-3.2-3B-Instruct.jinja")), "llama3.2");
  EXPECT_EQ(detect_chat_template(file("Qwen-Qwen2.5-7B-Instruct.jinja")), "qwen2.5");
  EXPECT_EQ(detect_chat_template(file("mistralai-Mistral-Nemo-Instruct-2407.jinja")),
            "mistral-nemo");
  const std::string gemma = file("google-gemma-2-2b-it.jinja");
  const std::string message = message_of([&] { detect_chat_template(gemma); });
  EXPECT_NE(message.find("none, llama2, llama3"), std::string::npos) << message;
  const auto config = [](const char* name) {
    const auto path = kShared / "tokenizers" / name / "tokenizer_config.json";
    return parse_json(read_file(path), path.string())["chat_template"].get<std::string>();
  };
  EXPECT_EQ(detect_chat_template(config("llama3")), "llama3.2");
  EXPECT_EQ(detect_chat_template(config("qwen2.5")), "qwen2.5");
  EXPECT_EQ(detect_chat_template(config("qwen3")), "qwen3");
  EXPECT_EQ(detect_chat_template(config("mistral-7b-v0.2")), "mistral");
}

TEST(ChatTemplate, DetectsByDistinctiveMarks) {
  EXPECT_EQ(detect_chat_template("tiny"), "tiny");
  EXPECT_EQ(detect_chat_template("{{ '<|start_header_id|>' + message['role'] }}"), "llama3");
  EXPECT_EQ(detect_chat_template("{{'<|im_start|>' + message['role'] + '\n' }}"), "chatml");
  EXPECT_EQ(detect_chat_template("{{ '<|im_start|>system\nYou are a helpful assistant.' }}"),
            "qwen2");
  EXPECT_EQ(detect_chat_template("{{ '[INST] ' }} {{ '<<SYS>>\\n' }}"), "llama2");
  EXPECT_EQ(detect_chat_template(
                "{{ '[INST] ' + message['content'] + ' [/INST]' }}{{ content + eos_token + ' ' }}"),
            "mistral-v0.1");
  EXPECT_EQ(detect_chat_template("{{- \"[INST] \" + message[\"content\"] + \"[/INST]\" }}"),
            "mistral-v0.3");
  for (const char* unknown : {"", "{{ messages }}", "[INST]", "<|im_start|> You are a pirate."}) {
    EXPECT_NE(message_of([&] { detect_chat_template(unknown); }), "no error") << unknown;
  }
}

TEST(ChatTemplate, StopTokens) {
  const Tokenizer tiny =
      Tokenizer::from_json(embedded::tokenizer(), embedded::tokenizer_config(), "tiny");
  EXPECT_EQ(detect_chat_template(tiny.chat_template()), "tiny");
  EXPECT_EQ(stop_tokens(find_chat_template("tiny"), tiny),
            std::vector<int>{tiny.id_of("<eos>").value()});
  // The template's own stop tokens are not there; the tokenizer's EOS is.
  EXPECT_EQ(stop_tokens(find_chat_template("qwen3"), tiny), std::vector<int>{tiny.eos().value()});
}

TEST(ChatTemplate, StopTokensOfRealTokenizers) {
  if (!std::filesystem::exists(kShared)) GTEST_SKIP() << "no ../shared/data";
  const auto stops = [](const char* chat, const char* tokenizer) {
    return stop_tokens(find_chat_template(chat),
                       Tokenizer::open(kShared / "tokenizers" / tokenizer));
  };
  EXPECT_EQ(stops("llama3.2", "llama3"), (std::vector<int>{128009, 128008, 128001}));
  EXPECT_EQ(stops("qwen2.5", "qwen2.5"), (std::vector<int>{151645, 151643}));
  EXPECT_EQ(stops("mistral", "mistral-7b-v0.2"), (std::vector<int>{2}));
  EXPECT_EQ(stops("llama2", "llama2"), (std::vector<int>{2}));
}

}  // namespace
}  // namespace turnbench
