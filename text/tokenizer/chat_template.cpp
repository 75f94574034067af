#include "text/tokenizer/chat_template.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "text/tokenizer/known_chat_templates.h"

namespace turnbench {
namespace {

constexpr int kMarkedTurns = 16;  // number of turns for which `tiny` has marks

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

ChatTemplate open_chat_template(const std::string& given, const std::string& place,
                                const std::filesystem::path& folder, const Tokenizer& tokenizer,
                                const std::string& model) {
  if (given == "auto")
    return chat_template_of(tokenizer.chat_template(), tokenizer, "chat template of " + model);
  const std::vector<std::string> known = chat_template_names();
  if (std::find(known.begin(), known.end(), given) != known.end()) return find_chat_template(given);
  const std::filesystem::path file = folder / given;
  if (given.empty() || !path_exists(file)) {
    throw input_error("{}: found \"{}\", expected a file, or one of: {}", place, printable(given),
                      join(known, ", "));
  }
  return chat_template_of(read_file(file), tokenizer, file.string());
}

ChatRenderer::ChatRenderer(const ChatTemplate& chat)
    : tokens_(chat.tokens), template_(jinja::Template::parse(chat.text, chat.source)) {}

jinja::Rendering ChatRenderer::render(OrderedJson messages, bool generation_prompt) const {
  OrderedJson variables = {{"messages", std::move(messages)},
                           {"tools", nullptr},
                           {"documents", nullptr},
                           {"add_generation_prompt", generation_prompt}};
  for (const auto& [name, token] : tokens_) variables[name] = token;
  return template_.render(variables);
}

}  // namespace turnbench
