#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.h"
#include "harness/store/store.h"

namespace turnbench {

/// The answer of one method to one question.
struct MethodAnswer {
  std::string method;           ///< its label in tables
  std::string status;           ///< status of the record, or "pending" if there is none
  std::string error;            ///< one line, if the record failed
  std::string answer;           ///< empty if there is none
  std::optional<double> score;  ///< by the cell's own metric, x100
  std::optional<int> prompt_tokens, tokens;  ///< of prompt and answer; none if imported
  /// "stop" if the answer ended at a stop token, "length" if at its length limit; empty if it was
  /// imported, or if there is no answer.
  std::string finish_reason;
  std::string cell;  ///< key of its cell
};

/// One question with the answers of all methods under the same settings.
struct AnsweredTurn {
  Cell cell;  ///< the settings that the methods share; its method is the first answer's
  std::string dialogue, question;
  int turn = 0;
  std::vector<std::string> references;
  std::vector<MethodAnswer> answers;  ///< in table order
  /// If requested: the turn's text except the question, that is, instruction and paragraphs.
  std::optional<std::vector<std::string>> context = {};
};

/// A condition on an answer, such as "score<50".
class AnswerCondition {
 public:
  /// The fields are score (x100), turn, prompt_tokens and answer_tokens.
  /// @throws Error (input) for unknown fields and operators.
  static AnswerCondition parse(const std::string& text);
  /// False if the answer does not have the field.
  bool holds(const AnsweredTurn& turn, const MethodAnswer& answer) const;

 private:
  std::string field_, operator_;
  double value_ = 0;
};

struct AnswersRequest {
  std::string experiment;
  std::vector<std::string> methods;    ///< as MethodFilter reads them; empty: all
  std::string dataset;                 ///< label; empty: all
  std::string position, dialogue;      ///< empty: all
  std::size_t limit = 0;               ///< maximum number of turns; 0: all
  bool context = false;                ///< include the context of each turn
  std::vector<AnswerCondition> where;  ///< one answer must satisfy all of them
};

/// Calls `visit` for each requested turn, dialogue by dialogue.  Only one dialogue's answers are in
/// memory at a time.  Probes have no answers.
/// @throws Error (input) for methods, datasets, positions and dialogues that are not in the
/// experiment.
void for_each_answered_turn(const Store& store, const AnswersRequest& request,
                            const std::function<void(const AnsweredTurn&)>& visit);

OrderedJson to_json(const AnsweredTurn& turn);
/// A heading, the question and a table of the answers; long texts are shortened, and answers that
/// reached their length limit are marked.
std::string to_markdown(const AnsweredTurn& turn);

}  // namespace turnbench
