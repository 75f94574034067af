#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/run/conversation.h"
#include "harness/run/memoized_prefill.h"
#include "harness/run/unit.h"
#include "inference/engine/engine.h"

namespace turnbench {

/// The state of one cell while its dialogue runs.
struct Branch : Conversation {
  const UnitCell* cell;
  std::optional<Sequence> sequence;
  /// Number of tokens of each earlier turn's prompt; the current prompt begins with these prompts.
  std::vector<std::size_t> earlier_prompt_lengths;
  std::shared_ptr<TurnPlans> plans = std::make_shared<TurnPlans>();
  DialogueView view;  ///< of the current turn, for policies
  std::vector<float> logits;
  /// The sequence before it answered, if the gold answer will replace its own answer, or if
  /// fidelity is measured.
  std::optional<Sequence> before_answer;
  std::vector<float> prompt_logits;  ///< of the prompt's last row, if fidelity is measured
  bool recorded = true;              ///< false: it only gives full attention's answer to others
  /// Set if fidelity is measured: it answers as full attention over the whole dialogue does, from a
  /// prompt that is prefilled anew in each turn.
  bool is_full = false;
  double prefill_seconds = 0,
         decode_seconds = 0;  ///< of the current turn: its share of the batches

  bool reprefills() const { return cell->history == History::kReprefill; }
  /// True if the previous turns' cache is that of this branch.
  bool continues() const { return record.turn > 0 && keeps_cache(cell->history); }
  /// True if this turn is only a part of the history of the last one.
  bool skips(int turn) const {
    return cell->history == History::kDense &&
           static_cast<std::size_t>(turn) + 1 < dialogue->turns.size();
  }
  /// True if it goes on from ActiveUnit::dense_histories.
  bool follows_dense_history() const {
    return cell->history == History::kDense && !skips(record.turn) && record.turn > 0;
  }
  /// True if the next turn goes on from what the sequence was before it answered.
  bool takes_answer_back() const {
    return keeps_cache(cell->history) && cell->answers == Answers::kGold;
  }
  // Whether the method evicts at the end of a prompt, and while it decodes the answer.
  bool evicts(int turn) const { return turn == 0 || evicts_in_answers(); }
  bool evicts_in_answers() const { return cell->history != History::kCompressOnce; }
};

/// Key of a shared prefix, a sequence with the full cache of a prompt from which branches and later
/// turns continue: what determines the prefill, and the tokens of the prompt.
using PrefixKey = std::pair<std::string, std::vector<int>>;

/// The prefill key of full attention over the whole prompt.
inline const std::string kDensePrefill;

/// The state of a unit while it runs.  Its branches answer each turn together.
struct ActiveUnit {
  WorkUnit unit;
  std::list<UnitCell> teachers;  ///< of the branches that are not recorded
  std::vector<Branch> branches;
  std::map<PrefixKey, Sequence> prefixes;  ///< of the current turn
  /// With full attention, all that stands before the last turn's own tokens, for branches whose
  /// history is dense; from the last turn on.  By whether keys before RoPE are stored too.
  std::map<bool, Sequence> dense_histories;
  /// Where fidelity is measured, full attention's logits after each prompt of the current turn.
  std::map<std::vector<int>, std::vector<float>> full_logits;
  int turn = -1;
  std::size_t steps = 0;  ///< decode steps since it started
  std::int64_t tokens = 0;
  UnitResult result;

  bool answered() const {
    return turn < 0 || std::all_of(branches.begin(), branches.end(),
                                   [](const Branch& b) { return b.finished; });
  }
};

}  // namespace turnbench
