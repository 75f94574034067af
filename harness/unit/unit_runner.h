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

/// One cell while its dialogue runs.
struct Branch : Conversation {
  const UnitCell* cell;
  std::optional<Sequence> sequence;
  /// Tokens of each earlier turn's prompt, with which this one begins.
  std::vector<std::size_t> known;
  std::shared_ptr<TurnPlans> plans = std::make_shared<TurnPlans>();
  DialogueView view;  ///< of this turn, as policies see it
  std::vector<float> logits;
  std::optional<Sequence>
      base;  ///< as it was before it answered, where the gold answer replaces its own
  double prefill_seconds = 0, decode_seconds = 0;  ///< of this turn: a share of what was batched

  bool reprefills() const { return cell->history == History::kReprefill; }
  /// When a prompt ends; and while it is answered.
  bool evicts(int turn) const { return turn == 0 || evicts_in_answers(); }
  bool evicts_in_answers() const { return cell->history != History::kCompressOnce; }
};

/// Sequences that hold everything a prompt computed: what later turns go on from.  By what decides
/// the prefill, and the prompt.
using PrefixKey = std::pair<std::string, std::vector<int>>;

/// A unit while it runs: its branches answer turn after turn together.
struct ActiveUnit {
  WorkUnit unit;
  std::vector<Branch> branches;
  std::map<PrefixKey, Sequence> prefixes;  ///< of the turn
  int turn = -1;
  std::size_t steps = 0;  ///< decode steps made while it ran
  std::int64_t tokens = 0;
  UnitResult result;

  bool answered() const {
    return turn < 0 || std::all_of(branches.begin(), branches.end(),
                                   [](const Branch& b) { return b.finished; });
  }
};

/// Units that run together: each begins its next turn as soon as all its branches have answered,
/// while those of other units decode on.
class UnitRunner {
 public:
  UnitRunner(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding)
      : engine_(engine), renderer_(renderer), decoding_(decoding) {}

  bool empty() const { return active_.empty(); }

  /// Whether a further unit may join.  Units follow each other at a distance, so that they also
  /// end, and can be stored, one after the other.
  bool has_room(const WorkUnit& next) const;

  void add(WorkUnit unit);

  /// One decode step of all branches, after the prefill of those whose turn begins; returns the
  /// units that have answered their last turn.
  std::list<ActiveUnit> step();

  /// Gives up what runs, after a failure, and says what it was.
  std::vector<WorkUnit> give_up();

 private:
  /// Steps from a unit's beginning to its end: as many as those before took.
  std::size_t usual_steps() const { return ended_ > 0 ? ended_steps_ / ended_ : most_steps_; }
  void begin_turn(Branch& b, int turn);
  /// An eager implementation holds every head's scores, and keys and values repeated to every head.
  void check_eager(Branch& b) const;
  std::uint64_t policy_seed(const Branch& b) const;
  /// A prompt to prefill, and the branches that go on from it.
  struct Prefill {
    ActiveUnit* unit = nullptr;
    Pass pass;
    std::vector<int> tokens;
    std::vector<Branch*> forks;
  };
  void prefill(const std::vector<ActiveUnit*>& starting);
  /// What a unit's branches need prefilled for their turn; returns the prefixes that they share,
  /// to which the passes point.
  std::map<PrefixKey, Sequence> add_prefills(ActiveUnit& unit, std::vector<Prefill>& work);
  void add_own_prefill(ActiveUnit& unit, Branch& b, std::vector<Prefill>& work);
  /// A sequence that holds the previous turn's prompt of this very branch (another one's, even if
  /// it were longer, would split a sparse prefill elsewhere), and the tokens that are left to
  /// prefill.
  std::pair<Sequence, std::vector<int>> start_prefix(const ActiveUnit& unit, const Branch& b,
                                                     const PrefixKey& key) const;
  /// Makes a branch that prefills its whole dialogue by itself ready for its turn; returns the
  /// tokens to prefill.  Where a prompt may go on from an earlier one, as it does in a shared
  /// prefix, the rows of each earlier turn are computed in a pass of their own, as that turn
  /// planned them; what is counted is the turn's own rows.
  std::vector<int> prefill_known(ActiveUnit& unit, Branch& b);
  /// Makes a branch that kept its cache ready for its next turn; returns the tokens to prefill.
  std::vector<int> continue_sequence(Branch& b) const;
  /// Draws a token for every branch that has not finished, and feeds those that still have not.
  void decode_step();
  void note_cache(Branch& b) const;
  void finish_turn(ActiveUnit& unit, Branch& b);

  Engine& engine_;
  const PromptRenderer& renderer_;
  const Decoding& decoding_;
  std::list<ActiveUnit> active_;  ///< oldest first
  std::size_t steps_since_ = 0;   ///< a unit joined
  std::size_t most_steps_ = 0, ended_ = 0, ended_steps_ = 0;
  std::vector<double> steps_;  ///< of a cell alone: seconds of this turn's decode steps
};

}  // namespace turnbench
