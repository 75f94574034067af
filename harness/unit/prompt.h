#pragma once

#include <string>
#include <vector>

#include "datasets/dialogue.h"
#include "inference/policy.h"
#include "inference/tokenizer/chat_template.h"
#include "inference/tokenizer/tokenizer.h"

namespace turnbench {

/// One turn as the model reads it: what stands between the previous answer and this one.
struct RenderedTurn {
  std::vector<int> tokens;
  std::vector<Span> spans;  ///< over `tokens`, from 0; ascending, without gaps
  int truncated = 0;        ///< context tokens left out
  int beyond = 0;           ///< tokens above the limit that are no contexts, and stayed
};

/// A dialogue up to the answer of one of its turns, as the model reads it.
struct Prompt {
  std::vector<int> tokens;
  std::vector<Span> spans;  ///< over `tokens`

  /// The answer of turn `turn` joins the history.
  void add_answer(int turn, const std::vector<int>& answer);
  void add_turn(const RenderedTurn& turn);
};

/// Turns dialogues into tokens: chat template, question position, truncation.
class PromptRenderer {
 public:
  /// `end_tokens`: the model's own, which stop an answer beside the template's.
  PromptRenderer(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                 std::string system_prompt, const std::vector<int>& end_tokens);

  /// The pieces of turn `turn`: instruction, contexts and question in their order, wrapped by the
  /// template; the end of the previous answer comes first.  If the turn is longer than `max_tokens`
  /// (0 = no limit), tokens are taken out of the middle of its contexts, never out of anything
  /// else: what the rest is too long by is `beyond`.  A turn of another layout is put together as
  /// LongBench's pred.py does it: of a text of more than `max_tokens` tokens the first and the last
  /// max_tokens / 2 are decoded apart, without special tokens, and joined; then the template wraps
  /// it (none: the tokenizer adds its own special tokens), and it is tokenized again, so that it
  /// may be longer than `max_tokens`.
  RenderedTurn render(const Dialogue& dialogue, int turn, int max_tokens) const;

  /// The gold answer of a turn as it stands in the history.
  std::vector<int> gold_answer_tokens(const Turn& turn) const;
  const std::vector<int>& stop_tokens() const { return stop_tokens_; }
  /// The text of an answer, without special tokens and white space around it.
  std::string answer_text(const std::vector<int>& tokens) const;
  std::string token_text(int token) const;

 private:
  RenderedTurn render_verbatim(const Turn& t, int turn, int max_tokens) const;

  const Tokenizer& tokenizer_;
  const ChatTemplate& template_;
  std::string system_prompt_;
  std::vector<int> stop_tokens_;
};

}  // namespace turnbench
