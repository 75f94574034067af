#include "datasets/longmemeval.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/text.h"

namespace turnbench {
namespace {

constexpr int kLongMemEvalAnswerTokens = 128,
              kOfficialAnswerTokens = 500;  // as in the official generation

struct ChatMessage {
  std::string session, heading, role, content;
};

/// The messages of all sessions, in order; the first of each has a heading.
std::vector<ChatMessage> messages_of(const JsonView& view) {
  const std::vector<std::string> ids = view.at("haystack_session_ids").as_strings();
  const std::vector<std::string> dates = view.at("haystack_dates").as_strings();
  const std::vector<JsonView> sessions = view.at("haystack_sessions").items();
  if (dates.size() != sessions.size() || ids.size() != sessions.size()) {
    view.at("haystack_sessions")
        .fail(fmt::format("as many sessions as haystack_session_ids ({}) and haystack_dates ({})",
                          ids.size(), dates.size()));
  }
  std::vector<ChatMessage> out;
  for (std::size_t i = 0; i < sessions.size(); ++i) {
    std::string heading = fmt::format("[Chat of {}]\n", dates[i]);
    for (const JsonView& message : sessions[i].items()) {
      message.require_known_keys({"role", "content", "has_answer"});
      out.push_back({ids[i], std::exchange(heading, ""), message.at("role").as_string(),
                     message.at("content").as_string()});
    }
  }
  return out;
}

/// The question, without its context.
Turn question_of(const JsonView& view) {
  Turn turn;
  turn.instruction =
      "Answer the question from our earlier chats. Reply with the answer only; say so if they do "
      "not tell.";
  const std::string question = view.at("question").as_string();
  if (trim(question).empty()) view.at("question").fail("a question");
  turn.question = fmt::format("Today is {}. {}", view.at("question_date").as_string(), question);
  const JsonView answer = view.at("answer");
  turn.references = {answer.is_number() ? std::to_string(answer.as_integer()) : answer.as_string()};
  turn.gold = turn.references.front();
  turn.max_new_tokens = kLongMemEvalAnswerTokens;
  return turn;
}

Turn turn_of(const JsonView& view) {
  Turn turn = question_of(view);
  for (const ChatMessage& m : messages_of(view)) {
    turn.contexts.push_back({m.session, fmt::format("{}{}: {}", m.heading, m.role, m.content)});
  }
  turn.relevance = view.at("answer_session_ids").as_strings();
  for (const std::string& id : turn.relevance) {
    if (std::none_of(turn.contexts.begin(), turn.contexts.end(),
                     [&](const Paragraph& p) { return p.source == id; })) {
      view.at("answer_session_ids").fail("ids of haystack_session_ids");
    }
  }
  return turn;
}

/// The chats as turns, followed by the question.
std::vector<Turn> replayed_turns(const JsonView& view) {
  std::vector<Turn> out;
  const auto add = [](std::string& text, const std::string& more) {
    text += (text.empty() || text.ends_with("\n") ? "" : "\n") + more;
  };
  bool answered = true;  // the next user message begins a turn
  for (const ChatMessage& m : messages_of(view)) {
    const bool user = m.role != "assistant";
    if (!m.heading.empty() || (user && answered)) {
      out.emplace_back().question = m.heading;
      out.back().max_new_tokens = kOfficialAnswerTokens;
    }
    add(user ? out.back().question : out.back().gold, m.content);
    answered = !user;
  }
  for (Turn& turn : out) {
    turn.question = trim(turn.question);
    turn.references = {turn.gold};
  }
  out.push_back(question_of(view));
  out.back().max_new_tokens = kOfficialAnswerTokens;
  return out;
}

}  // namespace

std::vector<Dialogue> read_longmemeval(const std::filesystem::path& file, const std::string& name,
                                       std::size_t limit, ChatForm form) {
  const Json json = parse_json(read_file(file), file.string());
  std::vector<Dialogue> out;
  std::set<std::string> ids;
  for (const JsonView& view : JsonView(json, file.string()).items()) {
    if (limit != 0 && out.size() == limit) break;
    view.require_known_keys({"question_id", "question_type", "question", "answer", "question_date",
                             "haystack_dates", "haystack_session_ids", "haystack_sessions",
                             "answer_session_ids"});
    const std::string id = view.at("question_id").as_string();
    if (id.empty() || !ids.insert(id).second) {
      view.at("question_id").fail("a unique id");
    }
    out.push_back(
        {.id = id,
         .dataset = name,
         .task = view.at("question_type").as_string(),
         .metric = "qa_f1",
         .turns = form == ChatForm::kReplayed ? replayed_turns(view) : std::vector{turn_of(view)}});
  }
  return out;
}

}  // namespace turnbench
