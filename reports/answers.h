#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.h"
#include "harness/store/store.h"

namespace turnbench {

/// What one method answered to one question.
struct MethodAnswer {
  std::string method;                        ///< as tables call it
  std::string status;                        ///< of the record, or "pending" without one
  std::string error;                         ///< one line, of a failed one
  std::string answer;                        ///< empty unless there is one
  std::optional<double> score;               ///< by the cell's own metric, x100
  std::optional<int> prompt_tokens, tokens;  ///< of prompt and answer; imported ones have none
};

/// One question with what all methods answered to it, under equal settings.
struct AnsweredTurn {
  Cell cell;  ///< what the methods have in common; its method is the first one
  std::string dialogue, question;
  int turn = 0;
  std::vector<std::string> references;
  std::vector<MethodAnswer> answers;  ///< in table order
};

/// "score<50": a comparison that an answer satisfies or not; one without the field never does.
class AnswerCondition {
 public:
  /// Refuses unknown fields and operators; the fields are score (x100), turn, prompt_tokens and
  /// answer_tokens.
  static AnswerCondition parse(const std::string& text);
  bool holds(const AnsweredTurn& turn, const MethodAnswer& answer) const;

 private:
  std::string field_, operator_;
  double value_ = 0;
};

struct AnswersRequest {
  std::string experiment;
  std::vector<std::string> methods;    ///< as MethodFilter reads them; empty: all
  std::string dataset;                 ///< label; empty: all
  std::vector<AnswerCondition> where;  ///< all of them, by one and the same answer
};

/// Calls `take` for each turn that was asked, dialogue by dialogue: no more than one dialogue's
/// answers are in memory.  Probes have no answers.  Refuses methods and datasets that are not
/// there.
void for_each_answered_turn(const Store& store, const AnswersRequest& request,
                            const std::function<void(const AnsweredTurn&)>& take);

OrderedJson to_json(const AnsweredTurn& turn);
/// For a person to read: a heading, the question, a table of the answers; long texts are shortened.
std::string to_markdown(const AnsweredTurn& turn);

}  // namespace turnbench
