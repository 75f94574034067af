#include "datasets/conversation.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "common/error.h"
#include "common/text.h"
#include "datasets/source_file.h"

namespace turnbench {
namespace {

constexpr std::string_view kSession = "session_", kDateTime = "_date_time";

/// N of `session_N`; 0 for other keys.
std::int64_t session_number(std::string_view key) {
  if (!key.starts_with(kSession)) return 0;
  const auto number = parse_number<std::int64_t>(key.substr(kSession.size()));
  return number && *number > 0 ? *number : 0;
}

/// Reads digits at `at` and moves it behind them; -1 if there are none.
std::int64_t take_number(std::string_view text, std::size_t& at) {
  const std::size_t begin = at;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
  return parse_number<std::int64_t>(text.substr(begin, at - begin)).value_or(-1);
}

/// The ids D<session>:<message> in a text, without leading zeros.
std::vector<std::string> ids_in(std::string_view text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at++] != 'D') continue;
    const std::int64_t session = take_number(text, at);
    if (session < 0 || at == text.size() || text[at] != ':') continue;
    ++at;
    const std::int64_t message = take_number(text, at);
    if (message >= 0) out.push_back(fmt::format("D{}:{}", session, message));
  }
  return out;
}

std::string message_text(const JsonView& message, const char* text) {
  const std::string speaker = message.at("speaker").as_string();
  std::string out = fmt::format("{}: {}", speaker, message.at(text).as_string());
  const std::string caption = message.get("blip_caption", "");
  if (!caption.empty()) out += fmt::format("\n[{} shares an image: {}]", speaker, caption);
  return out;
}

}  // namespace

bool is_session_key(std::string_view key) {
  if (key.ends_with(kDateTime)) key.remove_suffix(kDateTime.size());
  return session_number(key) > 0;
}

std::vector<Paragraph> read_sessions(const JsonView& view, const char* text,
                                     std::vector<std::string_view> known) {
  known.insert(known.end(), {text, "speaker", "dia_id", "blip_caption"});
  std::map<std::int64_t, std::string> sessions;
  for (const std::string& key : view.keys()) {
    if (const std::int64_t number = session_number(key); number > 0) sessions[number] = key;
  }
  if (sessions.empty()) view.fail("an object with session_1");
  std::vector<Paragraph> out;
  std::set<std::string> ids;
  for (const auto& [number, key] : sessions) {
    std::string heading =
        fmt::format("[Session of {}]\n", view.at(key + std::string(kDateTime)).as_string());
    for (const JsonView& message : view.at(key).items()) {
      message.require_known_keys(known);
      const std::string id = message.at("dia_id").as_string();
      if (id.empty() || !ids.insert(id).second) message.at("dia_id").fail("a unique id");
      out.push_back({id, std::exchange(heading, "") + message_text(message, text)});
    }
  }
  if (out.empty()) view.fail("an object with messages in its sessions");
  return out;
}

std::string question_text(const JsonView& view) {
  const std::string out = trim(view.at("question").as_string());
  if (out.empty()) view.at("question").fail("a question");
  return out;
}

std::string answer_text(const JsonView& view) {
  const std::string out =
      view.is_number() ? std::to_string(view.as_integer()) : trim(view.as_string());
  if (out.empty()) view.fail("an answer");
  return out;
}

std::vector<std::string> evidence_of(const JsonView& evidence,
                                     std::span<const Paragraph> messages) {
  std::set<std::string_view> known;
  for (const Paragraph& message : messages) known.insert(message.source);
  std::vector<std::string> out;
  for (const std::string& text : evidence.as_strings()) {
    for (const std::string& id : ids_in(text)) {
      if (known.erase(id) > 0) out.push_back(id);
    }
  }
  return out;
}

std::vector<Dialogue> memory_dialogues(const std::vector<MemoryConversation>& conversations,
                                       MemoryForm form, const std::string& name,
                                       std::string_view metric, const BuildOptions& options) {
  const bool single = form == MemoryForm::kSingleTurn, whole = !single && options.turns == 0;
  std::vector<Dialogue> out;
  for (const MemoryConversation& conversation : conversations) {
    const auto& questions = conversation.questions;
    const std::size_t turns = single  ? 1
                              : whole ? std::max<std::size_t>(questions.size(), 1)
                                      : static_cast<std::size_t>(options.turns);
    for (std::size_t first = 0; first < questions.size(); first += turns) {
      if (options.limit != 0 && out.size() == options.limit) return out;
      Dialogue& dialogue = out.emplace_back();
      dialogue.id = single  ? questions[first].id
                    : whole ? conversation.id
                            : fmt::format("{}-{}", conversation.id, first / turns + 1);
      dialogue.dataset = name;
      dialogue.task = "memory";
      dialogue.metric = metric;
      const std::size_t end = std::min(first + turns, questions.size());
      for (std::size_t i = first; i < end; ++i) dialogue.turns.push_back(questions[i].turn);
      dialogue.turns.front().instruction = conversation.instruction;
      dialogue.turns.front().contexts = conversation.messages;
    }
  }
  return out;
}

LeftOutQuestions::LeftOutQuestions(const std::filesystem::path& file) : file_(file) {
  if (file.empty()) return;
  std::size_t line = 0;
  for (const std::string& text : split(read_utf8_file(file), "\n")) {
    ++line;
    const std::string id = trim(text);
    if (!id.empty()) lines_.try_emplace(id, line);
  }
  if (lines_.empty())
    throw input_error("{}: found no id, expected one id of a question per line", file.string());
}

bool LeftOutQuestions::contains(const std::string& id) {
  const auto found = lines_.find(id);
  if (found == lines_.end()) return false;
  found->second = 0;
  return true;
}

void LeftOutQuestions::require_found(const std::string& source) const {
  for (const auto& [id, line] : lines_) {
    if (line == 0) continue;
    throw input_error("{}:{}: found the question \"{}\", expected one of {}", file_.string(), line,
                      printable(shorten(id, 60)), source);
  }
}

}  // namespace turnbench
