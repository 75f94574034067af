#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "datasets/dialogue.h"
#include "harness/run/labelled_text.h"
#include "inference/policy/policy.h"
#include "text/tokenizer/chat_turns.h"
#include "text/tokenizer/tokenizer.h"

namespace turnbench {

/// One turn as tokens: everything between the previous answer and this turn's answer.
struct RenderedTurn : LabelledTokens {
  int truncated_tokens = 0;  ///< context tokens removed by truncation
  int excess_tokens = 0;     ///< tokens above the limit, because only contexts are truncated
};

/// A dialogue up to the answer of one of its turns, as tokens.
struct Prompt {
  std::vector<int> tokens;
  std::vector<Span> spans;  ///< over `tokens`

  /// Appends the answer of turn `turn`.
  void add_answer(int turn, const std::vector<int>& answer);
  void add_turn(const RenderedTurn& turn);
};

/// The question of a turn among the spans of a prompt; the end if they do not contain it.
std::vector<Span>::const_iterator question_of(const std::vector<Span>& spans, int turn);

/// Renders dialogues as tokens: chat template, position of the question, truncation.  Tokenizer and
/// template must outlive it.
class PromptRenderer {
 public:
  /// `system_prompt`: empty for none.  `end_tokens`: stop tokens of the model, in addition to those
  /// of the template (its own, and the special token that it writes after an answer) and the
  /// tokenizer's EOS.
  /// @throws Error (input) for a template to which turns cannot be appended.
  PromptRenderer(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                 const std::string& system_prompt, const std::vector<int>& end_tokens);

  /// Renders turn `turn`: instruction, contexts and question in their order, wrapped by the
  /// template, after the end of the previous answer.  If the turn has more than `max_tokens` tokens
  /// (0: no limit), tokens are cut from the middle of its contexts, and from nothing else; what
  /// still exceeds the limit is `excess_tokens`.
  ///
  /// Turns of another layout than kPieces are rendered as by LongBench's pred.py.  If the text has
  /// more than `max_tokens` tokens, the first and the last max_tokens / 2 are decoded separately,
  /// without special tokens, and joined.  The template wraps the result (kPlain: no template, but
  /// the tokenizer adds its special tokens), and it is tokenized again.  So it may be longer than
  /// `max_tokens`.
  RenderedTurn render(const Dialogue& dialogue, int turn, int max_tokens) const;

  /// The text of a turn as render() tokenizes it without a limit.
  LabelledText text(const Turn& turn, int index) const;

  /// The tokens of a turn's gold answer in the history.  A space separates it from an answer prefix
  /// unless one of the two has white space there.
  std::vector<int> gold_answer_tokens(const Turn& turn) const;
  const std::vector<int>& stop_tokens() const { return stop_tokens_; }
  /// The text of an answer, without special tokens and surrounding white space.
  std::string answer_text(const std::vector<int>& tokens) const;
  /// What policies know of `prompt`, which ends where the answer of turn `turn` begins; without a
  /// seed and a limit of the answer.  All arguments and the renderer must outlive the result.
  DialogueView view(const Prompt& prompt, const Dialogue& dialogue, int turn) const;

 private:
  /// The tokens that the template writes between the message of a turn and its answer, without the
  /// turn's answer prefix.
  std::vector<int> cue_tokens(const Turn& turn, int index) const;
  /// True if no template wraps the turn, but the tokenizer adds its special tokens.
  bool is_plain(const Turn& turn) const;
  RenderedTurn render_verbatim(const Turn& t, int turn, int max_tokens) const;

  const Tokenizer& tokenizer_;
  const ChatTemplate& template_;
  ChatTurns turns_;
  std::vector<int> stop_tokens_;
};

}  // namespace turnbench
