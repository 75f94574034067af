#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/run/conversation.h"
#include "harness/run/memoized_prefill.h"
#include "harness/run/sharing.h"
#include "harness/run/unit.h"
#include "inference/engine/engine.h"

namespace turnbench {

/// The state of one cell while its dialogue runs.
struct Branch : Conversation {
  const UnitCell* cell;
  TurnStart start = TurnStart::kFork;  ///< of the current turn
  /// The branch that decodes the current turn's answer for this one; null if it decodes itself.
  Branch* decoder = nullptr;
  std::optional<Sequence> sequence;
  /// Number of tokens of each earlier turn's prompt, all of which are prefixes of the current
  /// prompt.
  std::vector<std::size_t> earlier_prompt_lengths;
  std::vector<std::size_t> earlier_question_begins;  ///< `question_begin` of each earlier turn
  std::shared_ptr<TurnPlans> plans = std::make_shared<TurnPlans>();
  DialogueView view;  ///< for policies: the dialogue up to the current turn
  // If the method evicts before the question:
  std::size_t question_begin = 0;  ///< in the prompt; its end if the turn has no question
  DialogueView view_before_question;
  std::vector<float> logits;
  /// Copy of the sequence before its answer, if the gold answer will replace the answer, or if
  /// fidelity is measured.
  std::optional<Sequence> before_answer;
  std::vector<float> prompt_logits;  ///< of the prompt's last row, if fidelity is measured
  /// False: the branch only generates full attention's answer for other branches.
  bool recorded = true;
  /// Set if fidelity is measured: the branch answers with full attention over the whole dialogue,
  /// and each turn's prompt is prefilled from its first token.
  bool is_full = false;
  double prefill_seconds = 0,
         decode_seconds = 0;  ///< share of the batches' time in the current turn

  bool evicts_before_question() const { return cell->method->policies().evicts_before_question; }
  bool reprefills() const { return cell->history == History::kReprefill; }
  /// True if this turn is not answered and is only part of the last turn's history.
  bool skips() const { return start == TurnStart::kSkip; }
  /// True if the next turn starts from the state of the sequence before its answer.
  bool takes_answer_back() const {
    return keeps_cache(cell->history) && cell->answers == Answers::kGold;
  }
  // Whether the method evicts at the end of this turn's prompt, and while it decodes the answer.
  bool evicts(int turn) const { return turn == 0 || evicts_in_answers(); }
  bool evicts_in_answers() const { return cell->history != History::kCompressOnce; }
};

/// Key of a shared prefix, a sequence with the full cache of a prompt from which branches and later
/// turns continue: the settings that determine the prefill, and the tokens of the prompt.
using PrefixKey = std::pair<std::string, std::vector<int>>;

/// The state of a unit while it runs.  Its branches answer each turn together.
struct ActiveUnit {
  Unit unit;
  std::vector<UnitCell> references;        ///< cells of the branches that are not recorded
  std::vector<Branch> branches;            ///< of the unit's cells, then of `references`
  TurnSharing sharing;                     ///< of the branches in the current turn
  std::map<PrefixKey, Sequence> prefixes;  ///< of the current turn
  /// Sequences prefilled with full attention up to the last turn's own tokens, for branches with
  /// dense history; exist from the last turn on.  Key: whether pre-RoPE keys are stored too.
  std::map<bool, Sequence> dense_histories;
  /// If fidelity is measured, full attention's logits after each prompt of the current turn.
  std::map<std::vector<int>, std::vector<float>> full_logits;
  int turn = -1;
  std::size_t steps = 0;  ///< decode steps since the unit started
  Clock::time_point began = Clock::now();
  std::int64_t tokens = 0;
  UnitResult result;

  bool answered() const {
    return turn < 0 || std::all_of(branches.begin(), branches.end(),
                                   [](const Branch& b) { return b.finished; });
  }
};

}  // namespace turnbench
