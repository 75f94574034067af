#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "inference/tokenizer/tokenizer.h"

namespace turnbench {

/// A chat template.  It renders a dialogue turn by turn, so that turns can be appended to a KV
/// cache.  The concatenation
///
///   before_user(0) user_text(question 0) before_answer(0) answer_text(answer 0) after_answer()
///   before_user(1) user_text(question 1) generation_prompt(1)
///
/// is what the model's official Jinja template renders with add_generation_prompt=true.  All texts
/// must be tokenized with parse_special and without add_special: BOS is part of before_user(0),
/// except for `none`, which has no markup.
///
/// Differences to official templates, whose text for a turn may depend on later messages:
///   - Mistral's templates move the system prompt to the last user message.  Here it stays in the
///     first one, as in Mistral's own tokenizer V1.  The templates of v0.1 and v0.2 and `none` have
///     no system prompt; here it is put there too.
///   - Qwen3's template removes the thinking from earlier answers.  answer_text() does the same for
///     given answers; generated answers stay in the cache with their thinking.
///   - Llama 2's template trims the first message together with the system prompt before it, so
///   that
///     white space between them stays.  user_text() always trims the message.
///   - Llama 3.2's template writes today's date.  Here it is `date`, the official fallback, so that
///     results are reproducible.
struct ChatTemplate {
  enum class SystemPrompt { kRefused, kOwnMessage, kInFirstUserMessage };

  std::string name{};
  std::string dialogue_begin{};
  SystemPrompt system_prompt = SystemPrompt::kOwnMessage;
  std::string system_begin{}, system_end{};     ///< around the system prompt; {date}: `date`
  std::optional<std::string> default_system{};  ///< used if no system prompt is given
  std::string user_begin{}, user_end{};         ///< here and below, {n}: the number of the turn
  std::string answer_begin{}, answer_end{};
  std::string generated_prefix{};  ///< after answer_begin if the model generates the answer
  std::string given_prefix{};      ///< after answer_begin if the answer is given
  bool trims_users = false, trims_answers = false;  ///< strip white space from messages
  bool drops_thinking = false;  ///< answer_text() keeps only text after </think>
  std::vector<std::string> stops{};

  /// A user message consists of paragraphs and a question.  These texts precede each of them; the
  /// first piece of a message only if `prefixes_first_piece`.
  std::string paragraph_prefix = "\n\n";
  std::string question_begin = "\n\n";
  bool prefixes_first_piece = false;

  std::string date = "26 Jul 2024";

  /// The text before the user's message of turn `turn` (0, 1, ...).  `system` is used for turn 0
  /// only.
  /// @throws Error (input) for a system prompt if the template has none.
  std::string before_user(int turn, const std::optional<std::string>& system) const;
  std::string user_text(std::string_view message) const;
  std::string question_prefix(int turn) const;
  /// The text between the user's message and an answer that the model generates.
  std::string generation_prompt(int turn) const;
  /// The text between the user's message and an answer that is given.
  std::string before_answer(int turn) const;
  std::string answer_text(std::string_view answer) const;
  std::string after_answer() const;
};

std::vector<std::string> chat_template_names();

/// @throws Error (input) for an unknown name, with the list of known names.
ChatTemplate find_chat_template(std::string_view name);

/// Finds the name of the template for an official Jinja text or a close variant of it.
/// @throws Error (input) for an unrecognised text, with the list of known names.
std::string detect_chat_template(std::string_view jinja);

/// The stop tokens of answers: the template's `stops` that the tokenizer has, and its EOS.
std::vector<int> stop_tokens(const ChatTemplate& chat, const Tokenizer& tokenizer);

}  // namespace turnbench
