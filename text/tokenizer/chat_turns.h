#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer/chat_template.h"

namespace turnbench {

/// The template's text between two answers, and the place of the user's message in it.
struct TurnText {
  std::string text;
  /// The copied parts of the message, at least one: bytes [begin, end) of `text` equal those of the
  /// message from `source` on.  Both are ascending.
  std::vector<jinja::Piece> copies;

  /// The place in `text` at which the first `bytes` bytes of the message end.
  std::size_t position(std::size_t bytes) const;
};

/// A template turn by turn, so that turns can be appended to a KV cache.  The template's treatment
/// of messages is determined by rendering: the text of a turn is the text that follows the previous
/// answer.  All earlier messages are placeholders, because the text must not depend on an answer
/// that is not known yet.  The concatenation
///
///   turn(0, question 0) given_answer(answer 0) turn(1, question 1) given_answer(answer 1) ...
///
/// equals the template's text of the whole dialogue if the template writes the same text before a
/// generated answer as before a given one.  Otherwise (for example "<think>" only before generated
/// answers) the cue stays as the model saw it; and a generated answer keeps its thinking, which
/// templates remove from earlier answers.
class ChatTurns {
 public:
  /// `system`: the system prompt, or empty.
  ChatTurns(const ChatTemplate& chat, std::string system);

  /// The text between the answer before turn `turn` (0, 1, ...) and the answer of this turn.
  /// @throws Error (input) for a template that rejects the messages, that changes its earlier text
  /// when a turn follows, or whose text has no copy of the message.
  TurnText turn(int turn, const std::string& message) const;

  /// The template's text of a given answer: the answer, possibly trimmed, and the text that
  /// precedes only given answers.
  std::string given_answer(const std::string& answer) const;

  /// The text after an answer that another turn follows; "" if the template does not copy answers
  /// verbatim, which a dialogue of one turn does not need.
  std::string after_answer() const;

 private:
  struct Answered;
  struct Placeholders;
  Answered answered(int turn, const std::string& message) const;
  void require_appended(int turn, const Answered& dialogue) const;
  std::size_t index_of_question(int turn) const;  ///< among the messages
  jinja::Rendering render(int turn, const std::string& message, const std::string& answer) const;
  /// Turn `turn` after `turn` answered ones, with placeholders for all messages.
  const jinja::Rendering& placeholders(int turn) const;

  std::string source_, system_;
  ChatRenderer renderer_;
  std::shared_ptr<Placeholders> placeholders_;
};

}  // namespace turnbench
