#pragma once

#include <cstdint>
#include <list>
#include <vector>

#include "harness/run/active_unit.h"

namespace turnbench {

/// Runs several units together.  A unit begins its next turn as soon as all its branches have
/// answered, while branches of other units still decode.
class UnitRunner {
 public:
  UnitRunner(Engine& engine, const PromptRenderer& renderer, const Decoding& decoding)
      : engine_(engine), renderer_(renderer), decoding_(decoding) {}

  bool empty() const { return active_.empty(); }
  const std::list<ActiveUnit>& active() const { return active_; }

  /// True if it is time for another unit to start.  Starts are some steps apart, so that units also
  /// end, and are stored, one after another.
  bool is_due() const;
  /// True if this unit may start now.
  bool has_room(const Unit& next) const;

  void add(Unit unit);

  /// Prefills the branches whose turn begins, then makes one decode step of all branches.  Returns
  /// the units that have answered their last turn.
  std::list<ActiveUnit> step();

  /// Abandons all running units after a failure, and returns them.
  std::vector<Unit> abandon();

  /// Abandons the running units that are not expected to end by `time`.
  void abandon_after(Clock::time_point time);

 private:
  /// Expected decode steps of a unit: the mean over the units that have ended.
  std::size_t mean_steps_per_unit() const {
    return ended_ > 0 ? ended_steps_ / ended_ : most_steps_;
  }
  /// Estimated time until a unit ends: the rest of the turn's answers at the speed of the last
  /// decode step, and further turns as long as the mean of those that have begun.
  double seconds_left(const ActiveUnit& unit) const;
  void begin_turn(Branch& b, int turn);
  /// Determines where the question of the turn begins.
  /// @throws Error (input) if the turn has no text before it.
  static void find_question(Branch& b);
  /// Checks the memory of the eager implementation, which stores the scores of every head, and keys
  /// and values repeated for every query head.
  /// @throws Error (memory) if it exceeds the limit.
  void check_eager(Branch& b) const;
  void prefill(const std::vector<ActiveUnit*>& starting);
  /// Keeps what fidelity and the next turn need from the end of a branch's prompt.
  void keep_prompt_end(Branch& b) const;
  /// Samples a token for every unfinished branch, then decodes those that are still unfinished.
  void decode_step();
  /// Copies the answers of branches that decoded for others, and their caches where they are kept.
  static void copy_answers(ActiveUnit& unit);
  /// The answer along which the fidelity of a branch is measured in this turn.
  std::vector<int> given_answer(const ActiveUnit& unit, const Branch& b) const;
  /// Decodes all branches that have answered this turn along the same answer, as one batch, from
  /// the state at the end of their prompts.  Adds the means to the unit's scores.
  void measure_fidelity(ActiveUnit& unit);
  void write_cache_counters(Branch& b) const;
  /// Writes the times and memory of a cell that runs alone.
  void write_isolated(Branch& b) const;
  void finish_turn(ActiveUnit& unit, Branch& b);

  Engine& engine_;
  const PromptRenderer& renderer_;
  const Decoding& decoding_;
  std::list<ActiveUnit> active_;  ///< oldest first
  std::size_t steps_since_ = 0;   ///< decode steps since the last unit started
  std::size_t most_steps_ = 0, ended_ = 0, ended_steps_ = 0;
  double last_step_seconds_ = 0;  ///< of the last decode step
  // For isolated cells, in the current turn:
  std::vector<double> step_seconds_;    ///< one for each decode step
  std::size_t prefill_peak_bytes_ = 0;  ///< peak of keys and values during the prefill
  LinkTraffic link_before_;             ///< traffic when the turn began
};

}  // namespace turnbench
