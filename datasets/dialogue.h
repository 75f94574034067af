#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

/// Where the question stands among its turn's context paragraphs.
enum class Position { kBegin, kMiddle, kEnd };

std::string_view name_of(Position position);
/// `begin`, `middle` or `end`; `where` names the place in messages.
Position parse_position(std::string_view name, const std::string& where);

/// How the pieces of a turn become a prompt.
enum class Layout {
  kPieces,    ///< put together and wrapped by the chat template; contexts are what can be cut
  kVerbatim,  ///< one behind the other as they are, cut in the middle of them all, then wrapped
  kPlain,     ///< the same without the chat template
};

std::string_view name_of(Layout layout);

/// A stretch of context that is never cut, and the document it was taken from.
struct Paragraph {
  std::string source;
  std::string text;
};

/// One exchange: what the user says, and what is expected in answer.
struct Turn {
  std::string instruction;  ///< stands before everything else; may be empty
  std::vector<Paragraph> contexts;
  std::string question;
  Position position = Position::kEnd;
  Layout layout = Layout::kPieces;
  std::vector<std::string> references;
  std::vector<std::string> classes;  ///< all labels of a classification task
  std::vector<std::string>
      relevance;     ///< the sources that the answer comes from, also of earlier turns
  std::string gold;  ///< what stands in the history where `answers` is `gold`
  int max_new_tokens = 64;
};

/// A conversation with its scoring.
struct Dialogue {
  std::string id;       ///< unique within its dataset, the same for every position
  std::string dataset;  ///< `hotpotqa`, `mt-hotpotqa`, `tiny-fact`, ...
  std::string task;     ///< qa, summary, few-shot, ... (groups rows of a table)
  std::string metric;   ///< name of a metric, e.g. `qa_f1`
  std::vector<Turn> turns;
};

/// Index of the paragraph before which the question stands: 0 at the beginning, all paragraphs at
/// the end, and in the middle the boundary between two paragraphs that is nearest to half of the
/// text (bytes; the earlier one on a tie).  With fewer than two paragraphs the middle is the
/// beginning.
std::size_t question_index(const Turn& turn);

/// What stands as a turn's answer where answers are gold: its first reference if nothing else does.
std::string gold_answer_text(const Turn& turn);

/// Refuses a position to which the question of a turn cannot move, as its pieces stand as they are.
void check_position(const Dialogue& dialogue, Position position);

/// The same dialogue with every question at `position`; refuses as `check_position` does.
Dialogue with_questions_at(Dialogue dialogue, Position position);

/// The turns of dialogues that have their context in the first turn, `limit` at most (0: all), each
/// as a dialogue of its own, ID-1, ID-2, ..., with that turn's instruction and contexts.
std::vector<Dialogue> split_into_single_turns(std::span<const Dialogue> dialogues,
                                              std::size_t limit);

}  // namespace turnbench
