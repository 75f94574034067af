#include "inference/tokenizer/chat_template.h"

#include <algorithm>

#include "common/error.h"
#include "common/json.h"
#include "common/python_text.h"
#include "common/text.h"

namespace turnbench {
namespace {

constexpr int kTinyTurns = 16;  // it has marks for so many turns

using SystemPrompt = ChatTemplate::SystemPrompt;

ChatTemplate llama3(std::string name) {
  return {.name = std::move(name),
          .dialogue_begin = "<|begin_of_text|>",
          .system_begin = "<|start_header_id|>system<|end_header_id|>\n\n",
          .system_end = "<|eot_id|>",
          .user_begin = "<|start_header_id|>user<|end_header_id|>\n\n",
          .user_end = "<|eot_id|>",
          .answer_begin = "<|start_header_id|>assistant<|end_header_id|>\n\n",
          .answer_end = "<|eot_id|>",
          .trims_users = true,
          .trims_answers = true,
          .stops = {"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"}};
}

ChatTemplate llama3_dated(std::string name) {
  ChatTemplate out = llama3(std::move(name));
  out.system_begin += "Cutting Knowledge Date: December 2023\nToday Date: {date}\n\n";
  out.default_system = "";
  return out;
}

ChatTemplate chatml(std::string name, std::optional<std::string> default_system) {
  return {.name = std::move(name),
          .system_begin = "<|im_start|>system\n",
          .system_end = "<|im_end|>\n",
          .default_system = std::move(default_system),
          .user_begin = "<|im_start|>user\n",
          .user_end = "<|im_end|>\n",
          .answer_begin = "<|im_start|>assistant\n",
          .answer_end = "<|im_end|>\n",
          .stops = {"<|im_end|>", "<|endoftext|>"}};
}

ChatTemplate qwen3(std::string name, std::string generated_prefix) {
  ChatTemplate out = chatml(std::move(name), std::nullopt);
  out.generated_prefix = std::move(generated_prefix);
  out.drops_thinking = true;
  return out;
}

ChatTemplate mistral(std::string name, std::string user_begin, std::string user_end,
                     std::string answer_end) {
  return {.name = std::move(name),
          .dialogue_begin = "<s>",
          .system_prompt = SystemPrompt::kInFirstUserMessage,
          .system_end = "\n\n",
          .user_begin = std::move(user_begin),
          .user_end = std::move(user_end),
          .answer_end = std::move(answer_end),
          .stops = {"</s>"}};
}

ChatTemplate mistral_v3() {
  ChatTemplate out = mistral("mistral-v0.3", "[INST] ", "[/INST]", "</s>");
  out.given_prefix = std::string(" ");
  out.trims_answers = true;
  return out;
}

ChatTemplate llama2() {
  return {.name = "llama2",
          .system_prompt = SystemPrompt::kInFirstUserMessage,
          .system_begin = "<<SYS>>\n",
          .system_end = "\n<</SYS>>\n\n",
          .user_begin = "<s>[INST] ",
          .user_end = " [/INST]",
          .answer_end = " </s>",
          .given_prefix = " ",
          .trims_users = true,
          .trims_answers = true,
          .stops = {"</s>"}};
}

ChatTemplate tiny() {
  return {.name = "tiny",
          .dialogue_begin = "<bos>",
          .system_prompt = SystemPrompt::kRefused,
          .user_end = "\n<a{n}>",
          .answer_end = "<eos>",
          .given_prefix = " ",
          .stops = {"<eos>"},
          .paragraph_prefix = "\n ",
          .question_begin = "\n<q{n}> ",
          .prefixes_first_piece = true};
}

/// No markup at all: turns are paragraphs.
ChatTemplate none() {
  return {.name = "none",
          .system_prompt = SystemPrompt::kInFirstUserMessage,
          .system_end = "\n\n",
          .answer_end = "\n\n"};
}

std::vector<ChatTemplate> all_templates() {
  return {none(),
          llama2(),
          llama3("llama3"),
          llama3_dated("llama3.1"),
          llama3_dated("llama3.2"),
          chatml("chatml", std::nullopt),
          chatml("qwen2", "You are a helpful assistant."),
          chatml("qwen2.5", "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."),
          qwen3("qwen3", ""),
          qwen3("qwen3-no-thinking", "<think>\n\n</think>\n\n"),
          mistral("mistral-v0.1", "[INST] ", " [/INST]", "</s> "),
          mistral("mistral", "[INST] ", " [/INST]", "</s>"),
          mistral_v3(),
          mistral("mistral-nemo", "[INST]", "[/INST]", "</s>"),
          tiny()};
}

std::string numbered(const std::string& text, int turn) {
  return replace_all(text, "{n}", std::to_string(turn % kTinyTurns + 1));
}

std::string known_names() {
  return join(chat_template_names(), ", ");
}

}  // namespace

std::string ChatTemplate::before_user(int turn, const std::optional<std::string>& system) const {
  if (turn > 0) return user_begin;
  if (system && system_prompt == SystemPrompt::kRefused) {
    throw input_error("chat template {}: found a system prompt, expected none", name);
  }
  const std::optional<std::string>& given = system ? system : default_system;
  const bool own_message = system_prompt == SystemPrompt::kOwnMessage;
  std::string block;
  if (given) {
    block = fmt::format("{}{}{}", replace_all(system_begin, "{date}", date),
                        own_message && trims_users ? std::string(python::strip(*given)) : *given,
                        system_end);
  }
  return dialogue_begin + (own_message ? block + user_begin : user_begin + block);
}

std::string ChatTemplate::user_text(std::string_view message) const {
  return std::string(trims_users ? python::strip(message) : message);
}

std::string ChatTemplate::question_prefix(int turn) const {
  return numbered(question_begin, turn);
}

std::string ChatTemplate::generation_prompt(int turn) const {
  return numbered(user_end, turn) + answer_begin + generated_prefix;
}

std::string ChatTemplate::before_answer(int turn) const {
  return numbered(user_end, turn) + answer_begin + given_prefix;
}

std::string ChatTemplate::answer_text(std::string_view answer) const {
  constexpr std::string_view kEnd = "</think>";
  const std::size_t end = drops_thinking ? answer.rfind(kEnd) : std::string_view::npos;
  if (end != std::string_view::npos) {
    answer.remove_prefix(end + kEnd.size());
    answer.remove_prefix(std::min(answer.find_first_not_of('\n'), answer.size()));
  }
  return std::string(trims_answers ? python::strip(answer) : answer);
}

std::string ChatTemplate::after_answer() const {
  return answer_end;
}

std::vector<std::string> chat_template_names() {
  std::vector<std::string> out;
  for (ChatTemplate& chat : all_templates()) out.push_back(std::move(chat.name));
  return out;
}

ChatTemplate find_chat_template(std::string_view name) {
  for (ChatTemplate& chat : all_templates()) {
    if (chat.name == name) return std::move(chat);
  }
  throw input_error("chat template: found \"{}\", expected one of: {}",
                    printable(shorten(name, 40)), known_names());
}

std::string detect_chat_template(std::string_view jinja) {
  const auto has = [&](std::string_view mark) {
    return jinja.find(mark) != std::string_view::npos;
  };
  if (jinja == "tiny") return "tiny";
  if (has("<|start_header_id|>")) {
    if (!has("Cutting Knowledge Date")) return "llama3";
    return has("strftime_now") ? "llama3.2" : "llama3.1";
  }
  if (has("<|im_start|>")) {
    if (has("enable_thinking")) return "qwen3";
    if (has("You are Qwen, created by Alibaba Cloud.")) return "qwen2.5";
    if (has("system\nYou are a helpful assistant.") || has("system\\nYou are a helpful assistant."))
      return "qwen2";
    if (!has("You are") && !has("tools")) return "chatml";
  }
  if (has("[INST]")) {
    if (has("<<SYS>>")) return "llama2";
    if (has(R"("[INST]" + message["content"] + "[/INST]")")) return "mistral-nemo";
    if (has(R"("[INST] " + message["content"] + "[/INST]")")) return "mistral-v0.3";
    if (has("'[INST] ' + message['content'] + ' [/INST]'")) {
      return has("eos_token + ' '") ? "mistral-v0.1" : "mistral";
    }
  }
  throw input_error(
      "chat template: found the unknown Jinja text {}, expected one that is known, or the name of "
      "one of: {}",
      printable(shorten(jinja, 60)), known_names());
}

std::vector<int> stop_tokens(const ChatTemplate& chat, const Tokenizer& tokenizer) {
  std::vector<int> out;
  const auto add = [&](std::optional<int> id) {
    if (id && std::find(out.begin(), out.end(), *id) == out.end()) out.push_back(*id);
  };
  for (const std::string& stop : chat.stops) add(tokenizer.id_of(stop));
  add(tokenizer.eos());
  return out;
}

}  // namespace turnbench
