#include "datasets/longmemeval.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/text.h"

namespace turnbench {
namespace {

constexpr int kLongMemEvalAnswerTokens = 128;

/// The messages of all sessions, in order.
std::vector<Paragraph> paragraphs_of(const JsonView& view) {
  const std::vector<std::string> ids = view.at("haystack_session_ids").as_strings();
  const std::vector<std::string> dates = view.at("haystack_dates").as_strings();
  const std::vector<JsonView> sessions = view.at("haystack_sessions").items();
  if (dates.size() != sessions.size() || ids.size() != sessions.size()) {
    view.at("haystack_sessions")
        .fail(fmt::format("as many sessions as haystack_session_ids ({}) and haystack_dates ({})",
                          ids.size(), dates.size()));
  }
  std::vector<Paragraph> out;
  for (std::size_t i = 0; i < sessions.size(); ++i) {
    std::string heading = fmt::format("[Chat of {}]\n", dates[i]);
    for (const JsonView& message : sessions[i].items()) {
      message.require_known_keys({"role", "content", "has_answer"});
      out.push_back({ids[i], fmt::format("{}{}: {}", heading, message.at("role").as_string(),
                                         message.at("content").as_string())});
      heading.clear();
    }
  }
  return out;
}

Turn turn_of(const JsonView& view) {
  Turn turn;
  turn.instruction =
      "Answer the question from our earlier chats. Reply with the answer only; say so if they do "
      "not tell.";
  turn.contexts = paragraphs_of(view);
  const std::string question = view.at("question").as_string();
  if (trim(question).empty()) view.at("question").fail("a question");
  turn.question = fmt::format("Today is {}. {}", view.at("question_date").as_string(), question);
  const JsonView answer = view.at("answer");
  turn.references = {answer.is_number() ? std::to_string(answer.as_integer()) : answer.as_string()};
  turn.gold = turn.references.front();
  turn.relevance = view.at("answer_session_ids").as_strings();
  for (const std::string& id : turn.relevance) {
    if (std::none_of(turn.contexts.begin(), turn.contexts.end(),
                     [&](const Paragraph& p) { return p.source == id; })) {
      view.at("answer_session_ids").fail("ids of haystack_session_ids");
    }
  }
  turn.max_new_tokens = kLongMemEvalAnswerTokens;
  return turn;
}

}  // namespace

std::vector<Dialogue> read_longmemeval(const std::filesystem::path& file, const std::string& name,
                                       std::size_t limit) {
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
      view.at("question_id").fail("an id that was not there before");
    }
    out.push_back({.id = id,
                   .dataset = name,
                   .task = view.at("question_type").as_string(),
                   .metric = "qa_f1",
                   .turns = {turn_of(view)}});
  }
  return out;
}

}  // namespace turnbench
