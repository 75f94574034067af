#include "datasets/sharegpt.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/text.h"
#include "datasets/jsonl.h"

namespace turnbench {
namespace {

constexpr std::array<std::string_view, 2> kUsers = {"human", "user"};
constexpr std::array<std::string_view, 5> kAssistants = {"gpt", "assistant", "chatgpt", "bard",
                                                         "bing"};
constexpr int kShareGptAnswerTokens = 256;

struct Message {
  std::string who, text;

  bool is_from(std::span<const std::string_view> names) const {
    return std::find(names.begin(), names.end(), who) != names.end();
  }
};

Message message_of(const JsonView& view) {
  const auto either = [&](const char* first, const char* second) {
    return view.has(first) ? view.at(first).as_string() : view.at(second).as_string();
  };
  return {either("role", "from"), either("content", "value")};
}

std::vector<Turn> turns_of(const JsonView& conversation) {
  std::vector<Message> messages;
  for (const JsonView& item : conversation.items()) messages.push_back(message_of(item));
  std::size_t at = 0;
  while (at < messages.size() && messages[at].who == "system") ++at;
  std::vector<Turn> out;
  for (; at + 1 < messages.size(); at += 2) {
    const Message &question = messages[at], &answer = messages[at + 1];
    if (!question.is_from(kUsers) || !answer.is_from(kAssistants)) break;
    if (trim(question.text).empty() || trim(answer.text).empty()) break;
    Turn turn;
    turn.question = question.text;
    turn.references = {answer.text};
    turn.gold = answer.text;
    turn.max_new_tokens = kShareGptAnswerTokens;
    out.push_back(std::move(turn));
  }
  return out;
}

/// Calls `take` for each chat of an array or of a jsonl file.
void for_each_chat(const std::filesystem::path& file,
                   const std::function<void(const JsonView&)>& take) {
  const std::string text = read_file(file);
  if (!trim(text).starts_with('[')) {
    for_each_json_line(file, take);
    return;
  }
  const Json json = parse_json(text, file.string());
  for (const JsonView& item : JsonView(json, file.string()).items()) take(item);
}

}  // namespace

std::vector<Dialogue> read_sharegpt(const std::filesystem::path& file, const std::string& name,
                                    std::size_t limit, RoundRange rounds) {
  std::vector<Dialogue> out;
  std::size_t chats = 0;
  for_each_chat(file, [&](const JsonView& view) {
    ++chats;
    std::vector<Turn> turns = turns_of(view.at("conversations"));
    if (turns.size() < rounds.least || turns.size() > rounds.most) return;
    if (limit != 0 && out.size() == limit) return;
    out.push_back({.id = fmt::format("{}-{:06}", name, chats),
                   .dataset = name,
                   .task = "chat",
                   .metric = "rouge_l_recall",
                   .turns = std::move(turns)});
  });
  if (out.empty()) {
    const bool any = rounds.least <= 1;
    throw input_error(
        "{}: found no chat with {}, expected one", file.string(),
        any ? "a question and its answer"
            : fmt::format("{} to {} questions and answers", rounds.least, rounds.most));
  }
  return out;
}

}  // namespace turnbench
