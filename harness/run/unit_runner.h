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
  void prefill(const std::vector<ActiveUnit*>& starting);
  /// Samples a token for every unfinished branch, then decodes those that are still unfinished.
  void decode_step();
  /// Adds branches that give full attention's answers, where no cell of the unit does.
  void add_teachers(ActiveUnit& unit);
  /// The answer along which the fidelity of a branch is measured in this turn.
  std::vector<int> given_answer(const ActiveUnit& unit, const Branch& b) const;
  /// Gives the branches that have answered this turn the same answer, all of them as one batch,
  /// from where they were at the end of their prompts.  Adds the means to the unit's scores.
  void measure_fidelity(ActiveUnit& unit);
  void write_cache_counters(Branch& b) const;
  /// Times and memory of a cell that runs alone.
  void write_isolated(Branch& b) const;
  void finish_turn(ActiveUnit& unit, Branch& b);

  Engine& engine_;
  const PromptRenderer& renderer_;
  const Decoding& decoding_;
  const Method full_ = Method::parse("full");
  std::list<ActiveUnit> active_;  ///< oldest first
  std::size_t steps_since_ = 0;   ///< decode steps since the last unit started
  std::size_t most_steps_ = 0, ended_ = 0, ended_steps_ = 0;
  // For isolated cells, of the current turn:
  std::vector<double> step_seconds_;    ///< of its decode steps
  std::size_t prefill_peak_bytes_ = 0;  ///< of keys and values
  LinkTraffic link_before_;             ///< when it began
};

}  // namespace turnbench
