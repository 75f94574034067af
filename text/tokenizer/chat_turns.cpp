#include "text/tokenizer/chat_turns.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/error.h"
#include "common/python_text.h"
#include "common/text.h"

namespace turnbench {
namespace {

// Placeholders for the other messages.
constexpr const char* kQuestion = "question";
constexpr const char* kAnswer = "answer";

/// The parts of a rendering that were copied from the message at `index`.
std::vector<jinja::Piece> copies_of(const jinja::Rendering& rendered, std::size_t index) {
  const std::string content = fmt::format("/messages/{}/content", index);
  std::vector<jinja::Piece> out;
  for (const jinja::Piece& piece : rendered.pieces) {
    if (rendered.origins[piece.origin] == content) out.push_back(piece);
  }
  return out;
}

}  // namespace

/// A dialogue up to a turn's answer, and the place of the preceding answer in it.
struct ChatTurns::Answered {
  jinja::Rendering all;
  std::size_t begin = 0, end = 0;
};

/// Renderings without a user's text, made once.  (References to a map's values stay valid.)
struct ChatTurns::Placeholders {
  std::mutex mutex;
  std::map<int, jinja::Rendering> of_turn;
};

std::size_t TurnText::position(std::size_t bytes) const {
  std::size_t out = copies.front().begin;
  for (const jinja::Piece& copy : copies) {
    if (copy.source < bytes)
      out = copy.begin + std::min(copy.end - copy.begin, bytes - copy.source);
  }
  return out;
}

ChatTurns::ChatTurns(const ChatTemplate& chat, std::string system)
    : source_(chat.source),
      system_(std::move(system)),
      renderer_(chat),
      placeholders_(std::make_shared<Placeholders>()) {}

std::size_t ChatTurns::index_of_question(int turn) const {
  return (system_.empty() ? 0 : 1) + 2 * static_cast<std::size_t>(turn);
}

/// Renders `turn` questions with `answer`, and `message`.
jinja::Rendering ChatTurns::render(int turn, const std::string& message,
                                   const std::string& answer) const {
  OrderedJson messages = OrderedJson::array();
  const auto add = [&](const char* role, const std::string& content) {
    OrderedJson& added = messages.emplace_back();
    added["role"] = role;
    added["content"] = content;
  };
  if (!system_.empty()) add("system", system_);
  for (int t = 0; t < turn; ++t) {
    add("user", kQuestion);
    add("assistant", answer);
  }
  add("user", message);
  return renderer_.render(std::move(messages), true);
}

const jinja::Rendering& ChatTurns::placeholders(int turn) const {
  const std::scoped_lock lock(placeholders_->mutex);
  const auto found = placeholders_->of_turn.find(turn);
  if (found != placeholders_->of_turn.end()) return found->second;
  return placeholders_->of_turn.emplace(turn, render(turn, kQuestion, kAnswer)).first->second;
}

ChatTurns::Answered ChatTurns::answered(int turn, const std::string& message) const {
  Answered out{.all = message == kQuestion ? placeholders(turn) : render(turn, message, kAnswer)};
  const auto copies = copies_of(out.all, index_of_question(turn) - 1);
  if (copies.empty()) {
    throw input_error("{}: found an earlier answer changed or left out, expected its text as it is",
                      source_);
  }
  if (copies.size() > 1) {
    throw input_error("{}: found {} copies of an earlier answer, expected one", source_,
                      copies.size());
  }
  out.begin = copies[0].begin;
  out.end = copies[0].end;
  return out;
}

void ChatTurns::require_appended(int turn, const Answered& dialogue) const {
  const jinja::Rendering& asked = placeholders(turn - 1);
  const auto question = copies_of(asked, index_of_question(turn - 1));
  const std::size_t end = question.empty() ? 0 : question.back().end;
  // The cue after the message may differ.
  if (end > 0 && dialogue.all.text.starts_with(asked.text.substr(0, end))) return;
  throw input_error(
      "{}: found that turn {} changes the text before it{}, expected a template that appends "
      "turns, as do: {}",
      source_, turn + 1, system_.empty() ? "" : " (with a system prompt)",
      join(chat_template_names(), ", "));
}

TurnText ChatTurns::turn(int turn, const std::string& message) const {
  const Answered all = turn > 0 ? answered(turn, message) : Answered{render(0, message, kAnswer)};
  if (turn > 0) require_appended(turn, all);
  TurnText out{all.all.text.substr(all.end), {}};
  std::size_t copied = 0;  // bytes of the message
  for (jinja::Piece copy : copies_of(all.all, index_of_question(turn))) {
    if (copy.begin < all.end || copy.source < copied) {
      throw input_error("{}: found a message written twice or out of order, expected it once",
                        source_);
    }
    copied = copy.source + (copy.end - copy.begin);
    copy.begin -= all.end;
    copy.end -= all.end;
    out.copies.push_back(copy);
  }
  if (!out.copies.empty()) return out;
  if (!python::strip(message).empty())
    throw input_error(
        "{}: found the user's message changed or left out, expected its text as it is", source_);
  // A message of white space was removed; its position is that of another message.
  const std::size_t place = this->turn(turn, kQuestion).copies.front().begin;
  const std::size_t at = std::min(place, out.text.size());
  out.copies.push_back({.begin = at, .end = at});
  return out;
}

std::string ChatTurns::given_answer(const std::string& answer) const {
  const Answered stand_in = answered(1, kQuestion);
  require_appended(1, stand_in);
  const std::string_view all = stand_in.all.text;
  const std::string_view before = all.substr(0, stand_in.begin), behind = all.substr(stand_in.end);
  const std::string& asked = placeholders(0).text;
  const std::size_t begin = before.starts_with(asked) ? asked.size() : before.size();
  const std::string given = render(1, kQuestion, answer).text;
  if (!given.starts_with(before.substr(0, begin)) || !given.ends_with(behind) ||
      given.size() < begin + behind.size()) {
    throw input_error("{}: found other text around the answer \"{}\", expected that of all answers",
                      source_, printable(shorten(answer, 60)));
  }
  return given.substr(begin, given.size() - behind.size() - begin);
}

std::string ChatTurns::after_answer() const {
  const bool written = !copies_of(placeholders(1), index_of_question(1) - 1).empty();
  if (!written) return "";
  const Answered all = answered(1, kQuestion);
  return all.all.text.substr(all.end);
}

}  // namespace turnbench
