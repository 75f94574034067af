#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/unit/conversation.h"
#include "harness/unit/turn_plans.h"
#include "harness/unit/unit.h"
#include "inference/engine.h"

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
  /// The sequence before it answered, if the gold answer will replace its own answer.
  std::optional<Sequence> before_answer;
  double prefill_seconds = 0,
         decode_seconds = 0;  ///< of the current turn: its share of the batches

  bool reprefills() const { return cell->history == History::kReprefill; }
  // Whether the method evicts at the end of a prompt, and while it decodes the answer.
  bool evicts(int turn) const { return turn == 0 || evicts_in_answers(); }
  bool evicts_in_answers() const { return cell->history != History::kCompressOnce; }
};

/// Key of a shared prefix, a sequence with the full cache of a prompt from which branches and later
/// turns continue: what determines the prefill, and the tokens of the prompt.
using PrefixKey = std::pair<std::string, std::vector<int>>;

/// The state of a unit while it runs.  Its branches answer each turn together.
struct ActiveUnit {
  WorkUnit unit;
  std::vector<Branch> branches;
  std::map<PrefixKey, Sequence> prefixes;  ///< of the current turn
  int turn = -1;
  std::size_t steps = 0;  ///< decode steps since it started
  std::int64_t tokens = 0;
  UnitResult result;

  bool answered() const {
    return turn < 0 || std::all_of(branches.begin(), branches.end(),
                                   [](const Branch& b) { return b.finished; });
  }
};

/// Runs several units together.  A unit begins its next turn as soon as all its branches have
/// answered, while branches of other units still decode.
class UnitRunner {
 public:
  UnitRunner(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding)
      : engine_(engine), renderer_(renderer), decoding_(decoding) {}

  bool empty() const { return active_.empty(); }

  /// True if another unit may start.  Units start some steps apart, so that they also end, and can
  /// be stored, one after another.
  bool has_room(const WorkUnit& next) const;

  void add(WorkUnit unit);

  /// Prefills the branches whose turn begins, then makes one decode step of all branches.  Returns
  /// the units that have answered their last turn.
  std::list<ActiveUnit> step();

  /// Abandons all running units after a failure, and returns them.
  std::vector<WorkUnit> abandon();

 private:
  /// Expected decode steps of a unit: the mean over the units that have ended.
  std::size_t mean_steps_per_unit() const {
    return ended_ > 0 ? ended_steps_ / ended_ : most_steps_;
  }
  void begin_turn(Branch& b, int turn);
  /// Checks the memory of an eager implementation, which holds the scores of every head, and keys
  /// and values repeated for every query head.
  /// @throws Error (memory) if it exceeds the limit.
  void check_eager(Branch& b) const;
  std::uint64_t policy_seed(const Branch& b) const;
  /// A prompt to prefill, and the branches that fork from it.
  struct Prefill {
    ActiveUnit* unit = nullptr;
    Pass pass;
    std::vector<int> tokens;
    std::vector<Branch*> forks;
  };
  void prefill(const std::vector<ActiveUnit*>& starting);
  /// Adds the prefills that a unit's branches need for their turn to `work`.  Returns the prefixes
  /// that branches share; the passes in `work` point to them.
  std::map<PrefixKey, Sequence> add_prefills(ActiveUnit& unit, std::vector<Prefill>& work);
  void add_own_prefill(ActiveUnit& unit, Branch& b, std::vector<Prefill>& work);
  /// A sequence with the previous turn's prompt of this branch, and the tokens that remain to be
  /// prefilled.  (A longer prompt of another branch would split a sparse prefill at another place.)
  std::pair<Sequence, std::vector<int>> start_prefix(const ActiveUnit& unit, const Branch& b,
                                                     const PrefixKey& key) const;
  /// Prepares a branch that prefills its whole dialogue again; returns the tokens to prefill.  If
  /// prompts may continue earlier ones, as in a shared prefix, the rows of each earlier turn are
  /// computed in a separate pass with the patterns of that turn.  Only the current turn's rows are
  /// counted.
  std::vector<int> restart_sequence(ActiveUnit& unit, Branch& b);
  /// Prepares a branch that keeps its cache for the next turn; returns the tokens to prefill.
  std::vector<int> continue_sequence(Branch& b) const;
  /// Samples a token for every unfinished branch, then decodes those that are still unfinished.
  void decode_step();
  void write_cache_counters(Branch& b) const;
  void finish_turn(ActiveUnit& unit, Branch& b);

  Engine& engine_;
  const PromptRenderer& renderer_;
  const Decoding& decoding_;
  std::list<ActiveUnit> active_;  ///< oldest first
  std::size_t steps_since_ = 0;   ///< decode steps since the last unit started
  std::size_t most_steps_ = 0, ended_ = 0, ended_steps_ = 0;
  std::vector<double> step_seconds_;  ///< for isolated cells: of the current turn's decode steps
};

}  // namespace turnbench
