#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "text/tokenizer/chat_template.h"

namespace turnbench {

/// What a template writes between two answers, and where the user's message went.
struct TurnText {
  std::string text;
  /// The copied parts of the message, at least one: bytes [begin, end) of `text` are those of the
  /// message from `source` on.  Ascending in both.
  std::vector<jinja::Piece> copies;

  /// Where in `text` the first `bytes` bytes of the message end.
  std::size_t position(std::size_t bytes) const;
};

/// A template turn by turn, so that turns can be appended to a KV cache.  What it does to messages
/// is found by rendering: the text of a turn is what stands behind the previous answer.  All
/// messages before the turn's own are stand-ins, because its text must not depend on an answer that
/// is not known yet.  The concatenation
///
///   turn(0, question 0) given_answer(answer 0) turn(1, question 1) given_answer(answer 1) ...
///
/// is what the template renders for the whole dialogue, if it writes the same where it lets the
/// model answer and in front of a given answer.  Where it does not ("<think>" for the model alone),
/// the cue stays as the model saw it; and a generated answer stays with its thinking, which
/// templates take out of earlier answers.
class ChatTurns {
 public:
  /// `system`: the system prompt, or empty.
  ChatTurns(const ChatTemplate& chat, std::string system);

  /// Everything between the answer before turn `turn` (0, 1, ...) and its own.
  /// @throws Error (input) for a template that refuses the messages, that changes what it wrote
  /// before when a turn follows, or whose text has no copy of the message.
  TurnText turn(int turn, const std::string& message) const;

  /// What stands for a given answer: its text, perhaps trimmed, and what precedes only given ones.
  std::string given_answer(const std::string& answer) const;

  /// Everything behind an answer that another turn follows; "" if the template does not write
  /// answers as they are, which a dialogue of one turn does not need.
  std::string after_answer() const;

 private:
  struct Answered;
  Answered answered(int turn, const std::string& message) const;
  void require_appended(int turn, const Answered& dialogue) const;
  std::size_t index_of_question(int turn) const;  ///< among the messages
  jinja::Rendering render(int turn, const std::string& message, const std::string& answer) const;

  std::string source_, system_;
  ChatRenderer renderer_;
};

}  // namespace turnbench
