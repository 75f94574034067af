#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "inference/tokenizer/tokenizer.h"

namespace turnbench {

/// How a chat model's dialogue is written down: the effect of the model's official Jinja template,
/// given turn by turn, so that turns can be appended to a KV cache.  For messages of a dialogue
///
///   before_user(0) user_text(question 0) before_answer(0) answer_text(answer 0) after_answer()
///   before_user(1) user_text(question 1) generation_prompt(1)
///
/// is what the official template renders with add_generation_prompt=true.  All texts are to be
/// tokenized with parse_special and without add_special: BOS is part of before_user(0), but for
/// `none`, which writes no markup at all.
///
/// Where the official text depends on the whole list of messages, what is already written stays:
///   - Mistral's templates move the system prompt to the last user message; here it stays in the
///     first, as Mistral's own tokenizer V1 has it.  The templates of v0.1 and v0.2 and `none` know
///     no system prompt and get it there too.
///   - Qwen3 drops the thinking from earlier answers; answer_text() does the same for an answer
///     that is given, but what the model itself generated stands in the cache with its thinking.
///   - Llama 2's template trims a first message together with the system prompt in front of it, so
///     that white space between the two stays; user_text() trims it in any case.
///   - Llama 3.2's template prints today's date; here it is `date`, the fallback of the official
///     templates, for results that can be repeated.
struct ChatTemplate {
  enum class SystemPrompt { kRefused, kOwnMessage, kInFirstUserMessage };

  std::string name{};
  std::string dialogue_begin{};
  SystemPrompt system_prompt = SystemPrompt::kOwnMessage;
  std::string system_begin{}, system_end{};     ///< around the system prompt; {date} is the date
  std::optional<std::string> default_system{};  ///< if the template writes one when none is given
  std::string user_begin{}, user_end{};         ///< here and below {n} is the number of the turn
  std::string answer_begin{}, answer_end{};
  std::string generated_prefix{};  ///< behind answer_begin if the model is to generate the answer
  std::string given_prefix{};      ///< behind answer_begin if the answer is given
  bool trims_users = false, trims_answers = false;  ///< white space off the ends of messages
  bool drops_thinking = false;                      ///< answer_text() keeps what follows </think>
  std::vector<std::string> stops{};

  /// A user message is composed of paragraphs and a question.  These stand in front of each, of
  /// the first piece of a message only if `prefixes_first_piece`.
  std::string paragraph_prefix = "\n\n";
  std::string question_begin = "\n\n";
  bool prefixes_first_piece = false;

  std::string date = "26 Jul 2024";

  /// The text in front of the user's message of turn `turn` (0, 1, ...); the system prompt matters
  /// for turn 0 only.  Refuses a system prompt if the model knows none.
  std::string before_user(int turn, const std::optional<std::string>& system) const;
  std::string user_text(std::string_view message) const;
  std::string question_prefix(int turn) const;
  /// The text between the user's message and an answer that the model is to generate.
  std::string generation_prompt(int turn) const;
  /// The text between the user's message and an answer that is given.
  std::string before_answer(int turn) const;
  std::string answer_text(std::string_view answer) const;
  std::string after_answer() const;
};

std::vector<std::string> chat_template_names();

/// Refuses unknown names with the list of known ones.
ChatTemplate find_chat_template(std::string_view name);

/// The name of the template whose official Jinja text, or a close relative of it, this is.  Refuses
/// a text that it does not recognise with the list of known names.
std::string detect_chat_template(std::string_view jinja);

/// The tokens that end an answer: those of the template that the tokenizer has, and its EOS.
std::vector<int> stop_tokens(const ChatTemplate& chat, const Tokenizer& tokenizer);

}  // namespace turnbench
