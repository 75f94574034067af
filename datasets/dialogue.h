#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

/// The place of the question among the context paragraphs of its turn.
enum class Position { kBegin, kMiddle, kEnd };

std::string_view name_of(Position position);
/// Parses `begin`, `middle` or `end`; `where` names the place in messages.
Position parse_position(std::string_view name, const std::string& where);

/// How the pieces of a turn (instruction, contexts, question) become a prompt.
enum class Layout {
  kPieces,    ///< joined and wrapped by the chat template; truncation cuts contexts only
  kVerbatim,  ///< concatenated unchanged, truncated in the middle of the whole, then wrapped
  kPlain,     ///< as kVerbatim, without the chat template
};

std::string_view name_of(Layout layout);

/// A piece of context that dataset builders never split, and its source.
struct Paragraph {
  std::string source;  ///< name of the document or part; `Turn::relevance` refers to it
  std::string text;
};

/// One turn: the user's message and the expected answer.
struct Turn {
  std::string instruction;  ///< comes first in the turn; may be empty
  std::vector<Paragraph> contexts;
  std::string question;
  /// The beginning of the answer, which the prompt contains behind the template's text, wherever
  /// the question is; may be empty.
  std::string answer_prefix;
  Position position = Position::kEnd;
  Layout layout = Layout::kPieces;
  std::vector<std::string> references;
  std::vector<std::string> classes;  ///< all labels of a classification task
  /// The sources, in this and in earlier turns, that the answer depends on.
  std::vector<std::string> relevance;
  std::string
      gold;  ///< the answer in the history if `answers` is `gold`; empty: the first reference
  bool has_gold = true;  ///< false: the references are not answers, and there is no gold answer
  int max_new_tokens = 64;
};

/// Turns in order, and the scoring of their answers.
struct Dialogue {
  std::string id;       ///< unique within its dataset, the same for every position
  std::string dataset;  ///< `hotpotqa`, `mt-hotpotqa`, `tiny-fact`, ...
  std::string task;     ///< qa, summary, few-shot, ...: groups rows of a table
  std::string metric;   ///< name of a metric, e.g. `qa_f1`
  std::vector<Turn> turns;
};

/// The number of paragraphs before the question: 0 at the beginning, all at the end.  In the middle
/// the question is at the boundary of paragraphs nearest to half of the text (in bytes; the earlier
/// boundary on a tie).  With fewer than two paragraphs the middle is the beginning.
std::size_t question_index(const Turn& turn);

/// The gold answer of a turn: `gold`, or the first reference if `gold` is empty.  "" if the turn
/// has no gold answer.
std::string gold_answer_text(const Turn& turn);

/// @throws Error (input) if a turn's question cannot move to `position` because its layout fixes
/// the order of the pieces.
void check_position(const Dialogue& dialogue, Position position);

/// The position of the questions of all turns; nullopt if they have several.
std::optional<Position> common_position(std::span<const Dialogue> dialogues);

/// The same dialogue with every question at `position`; throws as `check_position`.
Dialogue with_questions_at(Dialogue dialogue, Position position);

/// Makes a dialogue of one turn from each turn of dialogues whose context is in their first turn.
/// Each gets the first turn's instruction and contexts, and the id ID-1, ID-2, ...  At most `limit`
/// dialogues (0: all).
std::vector<Dialogue> split_into_single_turns(std::span<const Dialogue> dialogues,
                                              std::size_t limit);

}  // namespace turnbench
