#include "inference/tokenizer/chat_template.h"

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/text.h"
#include "inference/tokenizer/known_chat_templates.h"

namespace turnbench {
namespace {

constexpr int kMarkedTurns = 16;  // `tiny` has marks for so many turns

std::string known_names() {
  return join(chat_template_names(), ", ");
}

}  // namespace

std::string ChatTemplate::question_prefix(int turn) const {
  return replace_all(question_begin, "{n}", std::to_string(turn % kMarkedTurns + 1));
}

std::vector<std::string> chat_template_names() {
  std::vector<std::string> out;
  for (ChatTemplate& chat : known_chat_templates()) out.push_back(std::move(chat.name));
  return out;
}

ChatTemplate find_chat_template(std::string_view name) {
  for (ChatTemplate& chat : known_chat_templates()) {
    if (chat.name == name) return std::move(chat);
  }
  throw input_error("chat template: found \"{}\", expected one of: {}",
                    printable(shorten(name, 40)), known_names());
}

ChatTemplate chat_template_of(std::string_view text, const Tokenizer& tokenizer,
                              std::string source) {
  if (text.empty()) {
    throw input_error("{}: found none, expected a Jinja text, or the name of one of: {}", source,
                      known_names());
  }
  for (ChatTemplate& chat : known_chat_templates()) {
    if (chat.name == text) return std::move(chat);
  }
  return {.name = "own",
          .source = std::move(source),
          .text = std::string(text),
          .tokens = tokenizer.named_tokens()};
}

ChatRenderer::ChatRenderer(const ChatTemplate& chat)
    : tokens_(chat.tokens), template_(jinja::Template::parse(chat.text, chat.source)) {}

jinja::Rendering ChatRenderer::render(const OrderedJson& messages, bool generation_prompt) const {
  OrderedJson variables = {{"messages", messages},
                           {"tools", nullptr},
                           {"documents", nullptr},
                           {"add_generation_prompt", generation_prompt}};
  for (const auto& [name, token] : tokens_) variables[name] = token;
  return template_.render(variables);
}

}  // namespace turnbench
